"""Train one network."""

from contextlib import nullcontext
from pathlib import Path

from equiset.errors import one_line_errors
from equiset.training.run import train_run

with one_line_errors(snakemake.log[0]):
    run, watching = Path(snakemake.output.run).parent, nullcontext()
    if snakemake.params.tracking["live"]:
        from equiset.tracking.live import live

        watching = live(snakemake.params.tracking["uri"])
    with watching as watch:
        train_run(
            snakemake.params.spec,
            *(Path(file).parent for file in (snakemake.input.store, snakemake.input.sets)),
            *(Path(snakemake.params.checkpoints), run),
            threads=snakemake.threads,
            watch=watch,
            published=Path(snakemake.params.published),
        )
