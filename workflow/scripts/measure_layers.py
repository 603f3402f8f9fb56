"""Measure what the paper says of the layers themselves."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.experiments.laws.measurements import measure_layers

with one_line_errors(snakemake.log[0]):
    measure_layers(snakemake.params.settings, Path(snakemake.output.run).parent, snakemake.threads)
