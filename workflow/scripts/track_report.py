"""Send the report and the claims of a scale to MLflow."""

from pathlib import Path

from equiset.errors import one_line_errors
from equiset.tracking.send import track_report

with one_line_errors(snakemake.log[0]):
    track_report(
        snakemake.wildcards.scale,
        snakemake.params.uri,
        files=[Path(file) for file in (snakemake.input.report, *snakemake.input.claims)],
        output=Path(snakemake.output.tracked),
    )
