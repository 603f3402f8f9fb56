"""Judge the paper's claims."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.results.verdicts import judge

with one_line_errors(snakemake.log[0]):
    measures = snakemake.input.get("measures")
    measures = [measures] if isinstance(measures, str) else measures
    judge(Path(snakemake.input.claims), [Path(file) for file in measures], Path(snakemake.output.conditions).parent)
