"""Give what was measured on the layers its intervals."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.experiments.measure import LAWS, measure

with one_line_errors(snakemake.log[0]):
    measured = [Path(file) for file in snakemake.input.measured]
    measure(LAWS, [], measured, snakemake.params.scale, Path(snakemake.output.measures))
