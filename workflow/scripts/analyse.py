"""Measure something on trained networks beyond their predictions."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.experiments.jobs import analyse_runs

with one_line_errors(snakemake.log[0]):
    analyse_runs(
        snakemake.wildcards.experiment,
        snakemake.wildcards.item,
        runs=list(dict.fromkeys(Path(file).parent for file in snakemake.input.runs)),
        store=Path(snakemake.input.store).parent,
        settings=snakemake.params.settings,
        output=Path(snakemake.output.table),
        threads=snakemake.threads,
    )
