"""Copy runs that have ended to the published ones."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.results.publish import publish

with one_line_errors(snakemake.log[0]):
    params = snakemake.params
    publish(*map(Path, (params.source, params.analyses, params.checkpoints, params.output)))
