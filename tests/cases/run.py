"""Runs the cases of a file of JSON lines, which README.md describes, and prints those that fail."""

import argparse
import contextlib
import fractions
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import time

#: The time limit of a case in seconds, and the limit of a process's address space in MiB for each kind of case.
SECONDS = 30
MEMORY = {"run": 4096, "sim": 512, "python": 4096}
#: Keys of a case that have the expected result.
ANSWER = ("value", "values", "mean", "variance", "status", "error")


def number(value):
    """Converts the name of a number that JSON does not have; returns other values unchanged."""
    return float(value) if value in ("NaN", "inf", "-inf") else value


def same(wanted, got, within=None):
    """Returns True if a result is the expected one, up to a relative error of `within`."""
    if isinstance(wanted, list):
        matches = isinstance(got, list) and len(got) == len(wanted)
        return matches and all(same(one, other, within) for one, other in zip(wanted, got))
    wanted, got = number(wanted), number(got)
    if any(isinstance(one, (bool, str, list, dict, type(None))) for one in (wanted, got)):
        return type(wanted) is type(got) and wanted == got
    if not (math.isfinite(wanted) and math.isfinite(got)):
        return wanted == got or math.isnan(wanted) and math.isnan(got)
    # Fractions do not round: 2^53 + 1 is not 2^53.
    wanted, got = fractions.Fraction(wanted), fractions.Fraction(got)
    return abs(got - wanted) <= fractions.Fraction(within or 0) * abs(wanted)


def failure(case, got):
    """Returns the reason why a case fails, or None if it passes."""
    said = got.get("said", "")
    if got.get("hangs"):
        return f"it did not finish within {case.get('seconds', SECONDS)} s"
    if got.get("status", 0) not in (0, 1, 2):
        return f"ended with status {got['status']}: {said}"
    reasons = [mismatch(case, got), *([mismatch(case["or"], got)] if "or" in case else [])]
    return None if None in reasons else " and ".join(reasons)


def mismatch(answer, got):
    """Returns the reason why an outcome is not this answer, or None if it is."""
    wanted = {key: answer[key] for key in ANSWER if key in answer}
    if not wanted:
        raise ValueError(f"the case has no answer: {answer}")
    if "error" in wanted:
        if "error" in got and wanted["error"] in got["error"]:
            return None
        return f"wanted an error with {wanted['error']!r}, got {got.get('error', got.get('results', got.get('said')))!r}"
    if "status" in wanted:
        statuses = (1, 2) if wanted["status"] == "not 0" else (wanted["status"],)
        if got.get("status") not in statuses:
            return f"wanted status {wanted['status']}, got {got.get('status')}: {got.get('results', '')}"
        one_line = got["status"] != 2 or len(got["said"].splitlines()) == 1
        return None if one_line else f"wanted one line on standard error, got {got['said']!r}"
    if got.get("status") or "error" in got:
        return f"wanted {wanted}, got {got.get('error', got.get('said'))!r}"
    results = got.get("results", [])
    for key, expected in wanted.items():
        found = [line.get("value" if key == "values" else key, "none") for line in results]
        found = found if key == "values" else found[0] if len(found) == 1 else found
        if not same(expected, found, answer.get("within")):
            return f"wanted {key} {expected}, got {found}"
    return None


@contextlib.contextmanager
def output(kind):
    """Yields the standard output of a child, and the function that closes it in the child, or None."""
    if kind == "full":
        with open("/dev/full", "wb") as full:
            yield full, None
    elif kind == "gone":
        reader, writer = os.pipe()
        os.close(reader)
        yield writer, None
        os.close(writer)
    elif kind == "closed":
        yield None, lambda: os.close(1)
    else:
        yield subprocess.PIPE, None


def start(command, kind, case, folder, limited=True):
    """Runs a command until it exits or the time limit is reached, and returns its outcome."""
    limit = MEMORY[kind] << 20

    def prepare():
        if limited:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if close:
            close()

    environment = {**os.environ, "MALLOC_ARENA_MAX": "2", "RUST_BACKTRACE": "0"}
    with output(case.get("stdout")) as (stdout, close), open(folder / case.get("stdin", "/dev/null"), "rb") as stdin:
        begun = time.monotonic()
        child = subprocess.Popen(command, cwd=folder, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE,
                                 env=environment, preexec_fn=prepare, start_new_session=True)
        try:
            printed, said = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            child.communicate()
            return {"hangs": True}
    hangs = time.monotonic() - begun > case.get("seconds", SECONDS)
    return {"hangs": hangs, "status": child.returncode, "said": said.decode(errors="replace"), "printed": printed or b""}


def run_case(case, programs, folder, device):
    """Runs a case and returns its outcome."""
    kind = next(kind for kind in MEMORY if kind in case)
    if kind == "python":
        got = start([sys.executable, __file__, "--evaluate", case[kind]], kind, case, folder, device != "gpu")
        with contextlib.suppress(ValueError, IndexError):
            got |= json.loads(got["printed"].splitlines()[-1])
        return got
    options = ["--device", {"gpu": "cuda"}.get(device, device)] if kind == "run" else []
    got = start([programs[kind], *case[kind], *options], kind, case, folder, device != "gpu")
    if "--json" in case[kind] and got.get("status") == 0:
        got["results"] = [json.loads(line) for line in got["printed"].splitlines()]
    return got


def forked(function):
    """Calls a function in this process and then in a forked child, and returns the result in the child."""
    function()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = {"value": function()}
        except Exception as error:
            answer = {"error": str(error)}
        os.write(writer, json.dumps(answer, default=plain).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answers:
        answer = json.loads(answers.read())
    os.waitpid(child, 0)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["value"]


def plain(value):
    """Converts an array or number of NumPy or warpfold to lists and numbers of Python."""
    import numpy

    return named(numpy.asarray(value).tolist())


def named(value):
    """Replaces NaN and infinities, which JSON does not have, by their names."""
    if isinstance(value, list):
        return [named(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def evaluate(expression):
    """Prints the result of an expression as a line of JSON."""
    import numpy
    import warpfold

    try:
        value = eval(expression, {"numpy": numpy, "warpfold": warpfold, "forked": forked, "__builtins__": __builtins__})
        value = value if isinstance(value, (bool, type(None))) else plain(value)
        print(json.dumps({"results": [{"value": value}]}))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluate", help=argparse.SUPPRESS)
    parser.add_argument("--cases", type=pathlib.Path, default=pathlib.Path(__file__).with_name("cases.jsonl"))
    parser.add_argument("--folder", type=pathlib.Path, help="folder of the input files")
    parser.add_argument("--run", help="path of the program warpfold")
    parser.add_argument("--sim", help="path of the program warpfold-sim")
    parser.add_argument("--device", action="append", help="device for the program warpfold; may be repeated")
    parser.add_argument("--only", default="", help="run only cases whose line contains this text")
    options = parser.parse_args()
    if options.evaluate is not None:
        return evaluate(options.evaluate)
    programs, counts = {"run": options.run, "sim": options.sim}, [0, 0]
    for line in options.cases.read_text().splitlines():
        if not line.strip() or options.only not in line:
            continue
        case = json.loads(line)
        for device in options.device if "run" in case else options.device[:1]:
            why = failure(case, run_case(case, programs, options.folder, device))
            counts[why is not None] += 1
            if why is not None:
                place = f" [{device}]" if "run" in case else ""
                print(f"FAILED{place} {line}: {why}"[:1000].replace("\n", " "), flush=True)
    print(f"{counts[0]} passed, {counts[1]} failed")
    sys.exit(counts[1] > 0 or counts[0] == 0)


if __name__ == "__main__":
    main()
