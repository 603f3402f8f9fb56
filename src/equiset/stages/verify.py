"""Let a published network predict again, from its weights, and compare its answers with the published ones."""

import argparse
import logging
from pathlib import Path

import numpy as np
import pandas as pd

from equiset.errors import EquisetError
from equiset.given import data_for
from equiset.parquet import read_parquet
from equiset.process import run_stage
from equiset.results.runs import Run
from equiset.stages import evaluate

log = logging.getLogger(__name__)

ROUNDING = 1e-4
"""How much a probability or a redshift may differ: processors of another kind round differently."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog="Other options: those of the stage `evaluate`.")
    parser.add_argument("--run", required=True, type=Path, help="folder of a published run")
    parser.add_argument("--sets", required=True, type=Path, help="folder that the stage `make_sets` wrote")
    parser.add_argument("--output", required=True, type=Path, help="Parquet file for the predictions")
    arguments, _ = parser.parse_known_args(argv)
    info = Run(arguments.run).info
    if data_for(info["spec"]["experiment"], arguments.sets, "sets.json")["digest"] != info["sets"]["digest"]:
        raise EquisetError(f"{arguments.sets} are not the sets of {arguments.run}, which had {info['sets']['data']}")
    evaluate.main(argv)
    published, again = (read_parquet(path) for path in (arguments.run / "predictions.parquet", arguments.output))
    log.info("%s: %s", arguments.run, compare(published, again))


def compare(published: pd.DataFrame, again: pd.DataFrame) -> str:
    """Say in what two tables of predictions differ; raise an `EquisetError` if it is in more than rounding."""
    if list(published) != list(again) or len(published) != len(again):
        raise EquisetError(f"{len(again)} predictions of other things than the {len(published)} that were published")
    largest = 0.0
    for name in published:
        one, other = (np.stack(table[name].to_numpy()) for table in (published, again))
        if one.dtype.kind == "f":
            largest = max(largest, float(np.abs(one - other).max()))
        elif wrong := int((one != other).sum()):
            raise EquisetError(f"{wrong} of {len(one)} predictions have another {name} than was published")
    if not largest <= ROUNDING:
        raise EquisetError(f"predictions differ by up to {largest:.2g} from what was published")
    return f"all {len(published):,} predictions are as published, numbers to within {largest:.2g}"


if __name__ == "__main__":
    run_stage(main)
