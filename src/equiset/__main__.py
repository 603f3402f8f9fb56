"""`python -m equiset predict RUN INPUT --output FILE`: see docs/predict.md."""

import argparse

from equiset import predicting
from equiset.process import run_stage


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m equiset")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("predict", help=predicting.__doc__, description=predicting.__doc__)
    predicting.add_arguments(command)
    command.set_defaults(run_command=predicting.predict)
    arguments = parser.parse_args(argv)
    arguments.run_command(arguments)


if __name__ == "__main__":
    run_stage(main)
