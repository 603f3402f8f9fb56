"""Give what was measured on the layers its intervals."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.experiments.laws.measures import number_layers

with one_line_errors(snakemake.log[0]):
    tables = [Path(file) for file in snakemake.input.measured]
    number_layers(tables, snakemake.params.scale).write(Path(snakemake.output.measures))
