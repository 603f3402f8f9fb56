"""Write one table or figure of an experiment."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.experiments.jobs import show

with one_line_errors(snakemake.log[0]):
    show(
        snakemake.wildcards.experiment,
        snakemake.wildcards.item,
        runs=[Path(folder) for folder in snakemake.params.runs],
        store=Path(snakemake.input.store).parent if snakemake.input.store else None,
        analyses=[Path(file) for file in snakemake.input.analyses],
        measures=Path(snakemake.input.measures),
        claims=Path(snakemake.input.claims),
        roles=dict(snakemake.params.roles),
        output=[Path(file) for file in snakemake.output],
    )
