"""Measure everything on the runs of an experiment."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.experiments.jobs import measure

with one_line_errors(snakemake.log[0]):
    measure(
        snakemake.wildcards.experiment,
        runs=[Path(folder) for folder in snakemake.params.runs],
        analyses=[Path(file) for file in snakemake.input.analyses],
        output=Path(snakemake.output.measures),
    )
