"""What becomes of the values that a kernel leaves, by the names that the rows of functions have for it.

Each function here takes the home of the arrays, the kernel's values as arrays, how many elements each result is of,
as a function, and the degrees of freedom that are taken off; and returns the results.
"""


def as_it_is(home, values, count, ddof):
    return values


def index(home, values, count, ddof):
    # Behind each index there is the element.
    return values[:1]


def _variance(home, values, count, ddof):
    if ddof == 0:
        return values[1]
    n = count()
    # One multiplication: PyTorch may divide by a number as it multiplies by the inverse, which rounds
    # otherwise.
    if isinstance(n, int):
        factor = n / (n - ddof) if n > ddof else float("inf")
    else:
        factor = n / (n - ddof).clip(min=0)
    return values[1] * factor


def variance(home, values, count, ddof):
    return [_variance(home, values, count, ddof)]


def deviation(home, values, count, ddof):
    # Not `** 0.5`: NumPy's scalars and CuPy compute that as a power, which rounds otherwise.
    return [home.sqrt(_variance(home, values, count, ddof))]


def mean_of_spread(home, values, count, ddof):
    return [values[0]]


def variance_and_mean(home, values, count, ddof):
    return [_variance(home, values, count, ddof), values[0]]


def any(home, values, count, ddof):
    return [values[0] != 0]


def all(home, values, count, ddof):
    return [values[0] == count()]


def _ends(home, values):
    # In double precision every integer type's smallest value has a magnitude.
    smallest, largest = (home.cast(value, "float64") for value in values)
    return smallest, largest, home.maximum(abs(smallest), abs(largest))


def magnitude(home, values, count, ddof):
    smallest, largest, larger = _ends(home, values)
    # Those of no elements have given way to each other.
    return [home.where(smallest > largest, 0.0, larger)]


def magnitude_of_numbers(home, values, count, ddof):
    smallest, largest, larger = _ends(home, values)
    # Those of no numbers are NaN, which nothing is above or below.
    return [home.where(smallest <= largest, larger, 0.0)]


#: What becomes of a result and an initial value, by the function's name.
WITH_INITIAL = {
    "sum": lambda home, value, initial: value + initial,
    "prod": lambda home, value, initial: value * initial,
    "min": lambda home, value, initial: home.minimum(value, initial),
    "max": lambda home, value, initial: home.maximum(value, initial),
}

#: Those that compute nothing.
VIEWS = (as_it_is, index)


def result_type(result, elements, left):
    """The type of the results, by what a row says of it, of the elements' type and of what the kernel leaves."""
    if result == "same":
        return elements
    if result == "float":
        return "float32" if elements in ("float16", "bfloat16", "float32") else "float64"
    return {"sum": left, "index": "int64", "bool": "bool"}[result]
