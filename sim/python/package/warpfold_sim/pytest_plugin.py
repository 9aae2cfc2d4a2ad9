"""pytest plugin, `pytest -p warpfold_sim`: tests use the simulator in place of a GPU, and a test that fails after the
simulator refused a driver call, because it does not support an instruction or a function, is reported as an expected
failure with that reason.

The plugin loads the simulator into pytest's own process. To run pytest again under `warpfold-sim exec` would require its
command line, which embedding programs, workers of pytest-xdist and debuggers do not have.

The driver appends refused calls to a file, which child processes inherit. Its messages on stderr do not suffice: `-s`
does not capture them, tests may consume them, and a repeated message is printed only once.
"""

import contextlib
import json
import os
import tempfile
from pathlib import Path

import pytest

import warpfold_sim

# The name of the attribute of an exception that holds the refusals before it. Fixtures of modules and sessions raise the
# same exception in every test that uses them.
_REFUSALS = "_warpfold_sim_refusals"

_file = tempfile.NamedTemporaryFile(prefix="warpfold-sim-", suffix=".refused")
os.environ["WARPFOLD_SIM_REFUSED"] = _file.name
warpfold_sim.load()


def _refusals():
    """Returns the distinct refusals of the current test, in order."""
    lines = Path(_file.name).read_text().splitlines()
    calls = dict.fromkeys(tuple(json.loads(line)) for line in lines)
    return [f"{function}: {reason or 'not simulated'}" for function, reason in calls]


def pytest_addoption(parser):
    parser.addoption(
        "--sim-strict",
        action="store_true",
        help="warpfold-sim: report a test that fails after the simulator refused a driver call as failed",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol():
    os.truncate(_file.name, 0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and call.excinfo is not None:
        refusals = _refusals() or getattr(call.excinfo.value, _REFUSALS, [])
        if refusals:
            with contextlib.suppress(AttributeError):
                setattr(call.excinfo.value, _REFUSALS, refusals)
            reason = "not supported by the simulator: " + "; ".join(refusals)
            if item.config.getoption("sim_strict"):
                report.sections.append(("warpfold-sim", reason))
            else:
                report.outcome = "skipped"
                report.wasxfail = reason
    return report
