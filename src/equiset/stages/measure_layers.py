"""Measure what the paper says of the layers themselves, on generated sets."""

import argparse
import logging
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

from equiset.config.settings import validate
from equiset.experiments.laws.measurements import MEASUREMENTS
from equiset.experiments.laws.settings import Laws
from equiset.files import write_json
from equiset.given import json_object, number
from equiset.parquet import write_parquet
from equiset.process import keep_freed_memory, run_stage
from equiset.training import provenance

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", required=True, type=json_object, help="JSON: what the config says about the laws")
    parser.add_argument("--output", required=True, type=Path, help="folder for Parquet files and run.json")
    parser.add_argument("--threads", type=number, default=1, help="CPU threads")
    arguments = parser.parse_args(argv)

    keep_freed_memory()
    torch.set_num_threads(arguments.threads)
    torch.use_deterministic_algorithms(True)
    settings = validate(Laws, arguments.settings, "laws")
    seconds = {}
    for name, measure in MEASUREMENTS.items():
        started = time.process_time()
        table = measure(getattr(settings, name))
        write_parquet(arguments.output / f"{name}.parquet", table)
        seconds[name] = round(time.process_time() - started, 3)
        log.info("%s: %d rows, %.1f s of processor time", name, len(table), seconds[name])
    write_json(
        arguments.output / "run.json",
        {
            "settings": settings.model_dump(mode="json"),
            "processor_seconds": seconds,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "threads": torch.get_num_threads(),
            "git_commit": provenance.git_commit(),
            "versions": provenance.versions(),
            "machine": provenance.machine(),
        },
    )


if __name__ == "__main__":
    run_stage(main)
