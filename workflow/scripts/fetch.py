"""Bring the raw files of a data set to this machine."""

from pathlib import Path

from equiset.data import fetch_dataset
from equiset.errors import one_line_errors

if __name__ == "__main__":  # the processes that are started import this file as well
    with one_line_errors(snakemake.log[0]):
        fetch_dataset(
            **snakemake.params.spec, cache=Path(snakemake.params.cache), manifest=Path(snakemake.output.manifest)
        )
