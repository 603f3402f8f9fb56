"""Let a trained network predict."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.training.run import evaluate_run

with one_line_errors(snakemake.log[0]):
    evaluate_run(
        *(Path(file).parent for file in (snakemake.input.run, snakemake.input.store, snakemake.input.sets)),
        output=Path(snakemake.output.predictions),
        threads=snakemake.threads,
    )
