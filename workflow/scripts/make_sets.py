"""Draw the sets of an experiment."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.experiments.jobs import draw_sets

with one_line_errors(snakemake.log[0]):
    draw_sets(snakemake.params.spec, Path(snakemake.input.store).parent, Path(snakemake.output.sets).parent)
