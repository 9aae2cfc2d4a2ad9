"""The installed package of the simulator: its command, and its pytest plugin. `cargo xtask python` installs it from the
wheel. Each test runs programs in processes of their own."""

import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import warpfold_sim

DOUBLING = pathlib.Path(__file__).with_name("doubling.py")
PACKAGE = pathlib.Path(warpfold_sim.__file__).parent
#: Time limit of a program in seconds, longer than any of them takes.
TIMEOUT = 300


def run(*command, **options):
    """Runs a program and returns its status, and both outputs as one text."""
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT, **options)
    return out.returncode, out.stdout


def command(*arguments):
    """Runs the script that pip has made for the command."""
    script = next(path for path in importlib.metadata.files("warpfold-sim") if path.name == "warpfold-sim")
    # With `--target`, pip moves scripts to a folder below that of the packages.
    places = [pathlib.Path(script.locate()), PACKAGE.parent / "bin" / "warpfold-sim"]
    return run(sys.executable, next(place for place in places[::-1] if place.is_file()), *arguments)


def run_tests(folder, text, *options):
    """Runs pytest with the plugin on a file of tests."""
    shutil.copy(DOUBLING, folder)
    (folder / "test_it.py").write_text("import pytest\nfrom doubling import call, run\n" + text)
    arguments = ["-m", "pytest", "-p", "warpfold_sim", "-p", "no:cacheprovider", "-rx", *options]
    return run(sys.executable, *arguments, cwd=folder, env={**os.environ, "COLUMNS": "300"})


def test_the_tag_has_the_glibc_that_is_needed():
    wheel = importlib.metadata.distribution("warpfold-sim").read_text("WHEEL")
    assert re.search(r"^Tag: py3-none-manylinux_2_\d+_(x86_64|aarch64)$", wheel, re.MULTILINE), wheel


def test_exec_runs_a_program_that_uses_the_driver():
    status, out = command("exec", "--", sys.executable, str(DOUBLING), "21")
    assert (status, out.splitlines()[0]) == (0, "42")
    assert "warpfold-sim: 1 launch of 1 kernel, 5 warp instructions" in out


def test_the_command_passes_on_arguments_and_status(tmp_path):
    (tmp_path / "twice.ptx").write_bytes(DOUBLING.read_bytes().split(b'"""')[3])
    status, out = command("run", str(tmp_path / "twice.ptx"), "--kernel", "twice", "--arg", "data:u32[1]=21")
    assert status == 0 and "data: 42" in out, out
    status, out = command("run", str(tmp_path / "twice.ptx"), "--kernel", "other")
    assert status == 2 and "other" in out, out


def test_tests_run_in_the_simulator(tmp_path):
    text = """
def test_right():
    assert run("twice", 21) == 42

def test_wrong():
    assert run("twice", 21) == 43
"""
    status, out = run_tests(tmp_path, text)
    assert status == 1 and "1 failed, 1 passed" in out and "assert 42 == 43" in out, out


REFUSED = """
@pytest.fixture(scope="module")
def fixture():
    return run("unsupported", 0)

def test_instruction():
    run("unsupported", 0)

def test_instruction_again():
    run("unsupported", 0)

def test_function():
    call("cuMemAddressFree", 0, 0)

def test_fixture(fixture):
    pass

def test_same_fixture(fixture):
    pass

def test_child():
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "import doubling; doubling.run('unsupported', 0)"], check=True)

def test_handled():
    with pytest.raises(RuntimeError):
        run("unsupported", 0)

def test_wrong():
    assert run("twice", 21) == 43
"""


@pytest.mark.parametrize("option", ["--capture=fd", "--capture=no"])
def test_what_is_not_supported_is_an_expected_failure_with_its_name(tmp_path, option):
    status, out = run_tests(tmp_path, REFUSED, option)
    assert status == 1 and "1 failed, 1 passed, 6 xfailed" in out, out
    reasons = dict(re.findall(r"^XFAIL (?:at setup of )?test_it.py::(\w+) - not supported by the simulator: (.*)$", out, re.MULTILINE))
    assert "FAILED test_it.py::test_wrong" in run_tests(tmp_path, REFUSED, "-rf")[1]
    assert reasons.pop("test_function") == "cuMemAddressFree: not simulated"
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text().replace(" \\\n    ", " ")
    named = {"test_instruction", "test_instruction_again", "test_fixture", "test_same_fixture", "test_child"}
    assert set(reasons) == named
    for reason in reasons.values():
        assert reason in readme, reason


def test_strict_reports_it_as_a_failure(tmp_path):
    status, out = run_tests(tmp_path, REFUSED, "--sim-strict")
    assert status == 1 and "5 failed, 1 passed, 2 errors" in out and "not supported by the simulator: " in out, out


def test_another_driver_that_is_loaded_already_is_an_error(tmp_path):
    other = shutil.copy(PACKAGE / "lib" / "libcuda.so.1", tmp_path)
    program = f"import ctypes, warpfold_sim; ctypes.CDLL({str(other)!r}); warpfold_sim.load()"
    status, out = run(sys.executable, "-c", program)
    assert status == 1 and "RuntimeError: another libcuda.so.1 is loaded already" in out, out


def step(name, folder, **environment):
    """Runs a step of the action in a folder, in which it finds the installed command."""
    text = (pathlib.Path(__file__).parents[2] / "action.yml").read_text()
    script = re.search(rf"- name: {name}\n.*?run: \|\n(( {{8}}.*\n)+)", text, re.DOTALL)[1]
    (folder / "warpfold-sim" / "bin").mkdir(parents=True)
    program = folder / "warpfold-sim" / "bin" / "warpfold-sim"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import warpfold_sim; warpfold_sim.main()" "$@"\n')
    program.chmod(0o755)
    files = {"RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(folder / "output")}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return run(*shell, env={**os.environ, **files, **environment}, cwd=folder)


@pytest.mark.parametrize("after, status", [("true", 0), ("exit 3", 3)])
def test_the_action_runs_a_command_and_names_the_report(tmp_path, after, status):
    program = f"{sys.executable} {DOUBLING} 21\n{after}"
    assert step("Run", tmp_path, OPTIONS="--check --gpus 2", RUN=program)[0] == status
    report = tmp_path / "warpfold-sim.sarif"
    assert (tmp_path / "output").read_text() == f"sarif={report}\n"
    assert json.loads(report.read_text())["version"] == "2.1.0"


def test_the_action_names_no_report_without_a_run(tmp_path):
    status, out = step("Run", tmp_path, OPTIONS="--wrong", RUN="true")
    assert status == 2 and "--wrong" in out and not (tmp_path / "output").exists(), out
