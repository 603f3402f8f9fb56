"""Write the page of all results."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.experiments.pages import write_report

with one_line_errors(snakemake.log[0]):
    write_report(
        Path(snakemake.output.page).parent,
        template=Path(snakemake.input.page),
        runs=[Path(file).parent for file in snakemake.input.runs],
        shown=snakemake.params.shown,
        output=Path(snakemake.output.page),
    )
