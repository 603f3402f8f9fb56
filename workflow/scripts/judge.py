"""Judge the paper's claims."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.results.claims_table import judge_claims

with one_line_errors(snakemake.log[0]):
    claims, *measures = (Path(file) for file in snakemake.input)
    judge_claims(claims, measures, Path(snakemake.output.conditions).parent)
