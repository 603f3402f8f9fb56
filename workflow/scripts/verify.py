"""Let a published network predict again, and compare."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.training.run import verify_run

with one_line_errors(snakemake.log[0]):
    verify_run(
        *(Path(file).parent for file in (snakemake.input.run[0], snakemake.input.store, snakemake.input.sets)),
        output=Path(snakemake.output.predictions),
        threads=snakemake.threads,
    )
