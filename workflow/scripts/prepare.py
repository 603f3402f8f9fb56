"""Turn raw files into arrays."""

from pathlib import Path

from equiset.data import prepare_dataset
from equiset.errors import one_line_errors

if __name__ == "__main__":  # the processes that are started import this file as well
    with one_line_errors(snakemake.log[0]):
        prepare_dataset(
            **snakemake.params.spec,
            manifest=Path(snakemake.input.manifest),
            output=Path(snakemake.output.store).parent,
            threads=snakemake.threads,
        )
