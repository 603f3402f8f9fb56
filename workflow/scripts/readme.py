"""Put what was found on the published runs into README.md."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.experiments.pages import update_readme

with one_line_errors(snakemake.log[0]):
    update_readme(Path(snakemake.output.readme), Path(snakemake.params.reference))
