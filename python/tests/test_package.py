"""The type stubs of the package, the examples of its documents and its docstring, and its command."""

import doctest
import pathlib
import subprocess
import sys

import pytest
import warpfold

import stubs

HERE = pathlib.Path(__file__).parents[1]


def test_type_stubs_are_up_to_date():
    assert stubs.PLACE.read_text() == stubs.text(), "run `python3 tests/stubs.py` where the package is installed"
    for name in warpfold.__all__:
        assert any(f"{kind}{name}" in stubs.text() for kind in ("def ", "class ", "\n")), name


@pytest.mark.parametrize("page", ["README.md", "../docs/python.md"])
def test_examples_of_the_documents_print_what_they_show(page):
    results = doctest.testfile(str(HERE / page), module_relative=False)
    assert results.failed == 0 and results.attempted > 10


def test_docstring_examples_print_what_they_show():
    results = doctest.testmod(warpfold)
    assert results.failed == 0 and results.attempted > 1


@pytest.mark.skipif(not warpfold.device("auto").simulated, reason="there is a GPU")
def test_bench_without_a_gpu_is_an_error_of_one_line():
    done = subprocess.run([sys.executable, "-m", "warpfold", "bench", "sum"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: no GPU was found;")


@pytest.mark.parametrize(
    "given, reason",
    [
        (["--shape", "4x"], "'4x'; give lengths of 1 or more"),
        (["--shape", "0"], "'0'; give lengths of 1 or more"),
        (["--rounds", "1"], "'1'; give a number of 2 or more"),
    ],
)
def test_arguments_of_bench_are_checked(given, reason):
    done = subprocess.run([sys.executable, "-m", "warpfold", "bench", *given], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and reason in done.stderr
