"""The type stubs of the package, and the examples of its README and its docstring."""

import doctest
import pathlib

import warpfold

import stubs

HERE = pathlib.Path(__file__).parents[1]


def test_type_stubs_are_up_to_date():
    assert stubs.PLACE.read_text() == stubs.text(), "run `python3 tests/stubs.py` where the package is installed"
    for name in warpfold.__all__:
        assert any(f"{kind}{name}" in stubs.text() for kind in ("def ", "class ", "\n")), name


def test_readme_examples_print_what_they_show():
    results = doctest.testfile(str(HERE / "README.md"), module_relative=False)
    assert results.failed == 0 and results.attempted > 10


def test_docstring_examples_print_what_they_show():
    results = doctest.testmod(warpfold)
    assert results.failed == 0 and results.attempted > 1
