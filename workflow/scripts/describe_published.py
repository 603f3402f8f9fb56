"""Write the page of an experiment's published folder."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.experiments.pages import write_experiment_page

with one_line_errors(snakemake.log[0]):
    page, runs = Path(snakemake.output.page), [Path(file).parent for file in snakemake.input.runs]
    # Also those that cannot be made again here, because they show the data themselves.
    tables, figures = (sorted(page.parent.glob(pattern)) for pattern in ("tables/*.md", "figures/*.png"))
    write_experiment_page(snakemake.wildcards.experiment, runs, tables, figures, page)
