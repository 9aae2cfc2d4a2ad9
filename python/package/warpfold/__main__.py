"""`python -m warpfold bench` times the package beside PyTorch and CuPy."""

import argparse

from . import _bench


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line."""

    def error(self, message):
        self.exit(2, f"error: {message}\n")


def main():
    parser = _Parser(prog="python -m warpfold", description="Reductions of arrays in GPU memory.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    bench = commands.add_parser("bench", help="time calls beside PyTorch and CuPy", description=_bench.__doc__)
    _bench.add_arguments(bench)
    _bench.run(bench, parser.parse_args())


if __name__ == "__main__":
    main()
