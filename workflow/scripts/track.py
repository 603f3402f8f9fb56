"""Send the runs of an experiment to MLflow."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.tracking.send import track_runs

with one_line_errors(snakemake.log[0]):
    track_runs(
        snakemake.wildcards.experiment,
        snakemake.wildcards.scale,
        snakemake.params.uri,
        runs=[Path(folder) for folder in snakemake.params.runs],
        shown=[Path(file) for file in snakemake.input.shown],
        measures=Path(snakemake.input.measures),
        claims=Path(snakemake.input.claims[0]).parent,
        roles=dict(snakemake.params.roles),
        mirror=snakemake.params.mirror,
        output=Path(snakemake.output.tracked),
    )
