"""What comes with the functions: type stubs, documentation, the README's session."""

import doctest
import pathlib

import warpfold

import stubs

HERE = pathlib.Path(__file__).parents[1]


def test_the_stubs_are_those_of_the_functions():
    assert stubs.PLACE.read_text() == stubs.text(), "run `python3 tests/stubs.py` where the package is installed"
    for name in warpfold.__all__:
        assert f"def {name}(" in stubs.text() or f"class {name}" in stubs.text(), name


def test_the_readme_shows_what_is_printed():
    results = doctest.testfile(str(HERE / "README.md"), module_relative=False)
    assert results.failed == 0 and results.attempted > 10


def test_the_package_shows_what_is_printed():
    results = doctest.testmod(warpfold)
    assert results.failed == 0 and results.attempted > 1
