"""Verdicts on the paper's claims, written as tables and a figure."""

from pathlib import Path

from equiset.files import atomic_path
from equiset.results.claims import read_claims
from equiset.results.claims_figure import claims_figure
from equiset.results.claims_table import claims_table, conditions_table
from equiset.results.judging import judge_all
from equiset.results.measures import Measures


def judge(claims: Path, measures: list[Path], output: Path) -> None:
    """Judge the paper's claims by the numbers that were measured; what is missing is said.

    Args:
        claims: the claims file.
        measures: of any experiments.
        output: folder for the verdicts as csv, md, tex and png.
    """
    judgements = judge_all(read_claims(claims), Measures.read(*measures))
    for suffix in ("csv", "md", "tex"):
        claims_table(judgements).write(output / f"claims.{suffix}")
    claims_figure(judgements).write(output / "claims.png")
    with atomic_path(output / "conditions.csv") as partial:
        conditions_table(judgements).to_csv(partial, index=False, float_format="%.6g")
