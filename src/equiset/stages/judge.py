"""Judge the paper's claims by the numbers that were measured. What is missing is said."""

import argparse
from pathlib import Path

from equiset.files import atomic_path
from equiset.process import run_stage
from equiset.results.claims import read_claims
from equiset.results.claims_figure import claims_figure
from equiset.results.claims_table import claims_table, conditions_table
from equiset.results.judging import judge_all
from equiset.results.measures import Measures


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", required=True, type=Path, help="the claims file, YAML")
    parser.add_argument(
        "--measures", nargs="*", default=[], type=Path, help="files of `measure_runs`, of any experiments"
    )
    parser.add_argument("--output", required=True, type=Path, help="folder for the claims as csv, md, tex and png")
    arguments = parser.parse_args(argv)
    write_verdicts(arguments.claims, Measures.read(*arguments.measures), arguments.output)


def write_verdicts(claims: Path, measures: Measures, folder: Path) -> None:
    judgements = judge_all(read_claims(claims), measures)
    for suffix in ("csv", "md", "tex"):
        claims_table(judgements).write(folder / f"claims.{suffix}")
    claims_figure(judgements).write(folder / "claims.png")
    with atomic_path(folder / "conditions.csv") as partial:
        conditions_table(judgements).to_csv(partial, index=False, float_format="%.6g")


if __name__ == "__main__":
    run_stage(main)
