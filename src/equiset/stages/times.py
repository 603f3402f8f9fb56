"""Say where the time of a run went, from the benchmark files and logs of its jobs."""

import argparse
from pathlib import Path

from equiset.process import run_stage
from equiset.results.times import draw_time_by_rule, read_times, time_by_rule


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmarks", required=True, type=Path, help="folder of Snakemake's benchmark files")
    parser.add_argument("--logs", required=True, type=Path, help="folder of the logs")
    parser.add_argument("--output", required=True, nargs="+", type=Path, help="files; the suffix decides the format")
    arguments = parser.parse_args(argv)
    times = read_times(arguments.benchmarks, arguments.logs)
    table, figure = time_by_rule(times), draw_time_by_rule(times)
    for path in arguments.output:
        (figure if path.suffix in (".png", ".pdf") else table).write(path)


if __name__ == "__main__":
    run_stage(main)
