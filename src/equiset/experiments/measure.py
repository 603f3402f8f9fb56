"""What is measured on the runs of an experiment, and on the layers themselves."""

import logging
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from equiset.config.settings import validate
from equiset.errors import choose
from equiset.experiments import experiment_module
from equiset.experiments.laws.measures import measure_layers
from equiset.experiments.laws.settings import Laws
from equiset.files import write_json, write_parquet
from equiset.results.material import Material
from equiset.results.measures import measure_runs
from equiset.results.runs import by_variant, runs_of

log = logging.getLogger(__name__)

LAWS = "laws"
"""What is measured on the layers themselves stands beside the experiments."""


def measure(experiment: str, runs: list[Path], analyses: list[Path], scale: str, output: Path) -> None:
    """Measure everything on the runs of an experiment, or on what was found of the layers themselves: each number once.

    Args:
        experiment: its name, or `laws`.
        runs: folders of the runs, in table order.
        analyses: files of `analyse_runs` or `measure_laws`.
        scale: of the runs.
        output: Parquet file.
    """
    files = {path.stem: path for path in analyses}
    if experiment == LAWS:
        measure_layers(files, scale).write(output)
        return
    runs_of(experiment, runs)
    measures = experiment_module(experiment, "measures").MEASURES
    measure_runs(experiment, by_variant(runs, files), measures).write(output)


def analyse_runs(
    experiment: str, analysis: str, runs: list[Path], store: Path, settings: dict[str, Any], output: Path, threads: int
) -> None:
    """Measure something on trained networks beyond their predictions, and write it as a table."""
    import torch  # here, because nothing else in this module needs it

    torch.set_num_threads(threads)
    runs_of(experiment, runs)
    analyse = choose(experiment_module(experiment, "analyses").ANALYSES, analysis, f"analysis of {experiment}")
    write_parquet(output, analyse(Material(runs, store), settings))


def measure_laws(settings: dict[str, Any], output: Path, threads: int) -> None:
    """Measure what the paper says of the layers themselves, on generated sets, into a folder."""
    import torch

    from equiset.experiments.laws.measurements import MEASUREMENTS
    from equiset.training import provenance

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    laws, seconds = validate(Laws, settings, "laws"), {}
    for name, measurement in MEASUREMENTS.items():
        started = time.process_time()
        table = measurement(getattr(laws, name))
        write_parquet(output / f"{name}.parquet", table)
        seconds[name] = round(time.process_time() - started, 3)
        log.info("%s: %d rows, %.1f s of processor time", name, len(table), seconds[name])
    write_json(
        output / "run.json",
        {
            "settings": laws.model_dump(mode="json"),
            "processor_seconds": seconds,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "threads": torch.get_num_threads(),
            "git_commit": provenance.git_commit(),
            "versions": provenance.versions(),
            "machine": provenance.machine(),
        },
    )
