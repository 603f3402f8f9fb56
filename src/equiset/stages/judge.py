"""Judge the paper's claims from the files that runs, analyses and measurements left. What is missing is said."""

import argparse
from pathlib import Path

from equiset.files import atomic_path
from equiset.process import run_stage
from equiset.results.claims import read_claims
from equiset.results.claims_table import claims_table, conditions_table, write_html
from equiset.results.judging import SCALES, judge_all
from equiset.results.quantities import Evidence
from equiset.results.runs import Run


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", required=True, type=Path, help="the claims file, YAML")
    parser.add_argument("--scale", required=True, choices=SCALES, help="scale of the measurements")
    parser.add_argument("--runs", nargs="*", default=[], type=Path, help="folders of runs, of any experiments")
    parser.add_argument("--analyses", nargs="*", default=[], type=Path, help="files that the stage `analyse` wrote")
    parser.add_argument("--measured", nargs="*", default=[], type=Path, help="files that the stage `measure` wrote")
    parser.add_argument("--output", required=True, type=Path, help="folder for the claims as csv, md, tex and html")
    arguments = parser.parse_args(argv)

    runs: dict[str, dict[str, list[Run]]] = {}
    for folder in arguments.runs:
        run = Run(folder)
        runs.setdefault(run.info["spec"]["experiment"], {}).setdefault(run.variant, []).append(run)
    files = ({path.stem: path for path in paths} for paths in (arguments.analyses, arguments.measured))
    judgements = judge_all(read_claims(arguments.claims), Evidence(arguments.scale, runs, *files))
    for suffix in ("csv", "md", "tex"):
        claims_table(judgements).write(arguments.output / f"claims.{suffix}")
    write_html(arguments.output / "claims.html", judgements)
    with atomic_path(arguments.output / "conditions.csv") as partial:
        conditions_table(judgements).to_csv(partial, index=False, float_format="%.6g")


if __name__ == "__main__":
    run_stage(main)
