"""Metrics to MLflow: python benchmarks/mlflow_logging.py

A run of 50 epochs with four metrics, to a new SQLite database: in one batch at the end, as the rule `track` does it,
against one call for each metric while it happens.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from instrument import Benchmark, Form, Step, main

EPOCHS, METRICS = 50, ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy")


def log_with(batched: bool) -> Callable[[Path], Step]:
    def prepare(folder: Path) -> Step:
        os.environ["MLFLOW_ENABLE_PROMPT_REGISTRY"] = "false"
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        own = Path(tempfile.mkdtemp(dir=folder))
        client = MlflowClient(f"sqlite:///{own}/mlflow.db")
        experiment = client.create_experiment("bench", own.as_uri())

        def step() -> None:
            run = client.create_run(experiment).info.run_id
            if batched:
                client.log_batch(run, [Metric(name, 0.5, 0, epoch) for epoch in range(EPOCHS) for name in METRICS])
            else:
                for epoch in range(EPOCHS):
                    for name in METRICS:
                        client.log_metric(run, name, 0.5, 0, epoch)
            client.set_terminated(run)

        return step

    return prepare


BENCHMARKS = [
    Benchmark(
        f"MLflow, {EPOCHS * len(METRICS)} metrics",
        (Form("one batch", log_with(batched=True)), Form("one call each", log_with(batched=False))),
        rounds=3,
        clock="wall",
        memory=False,
    )
]

if __name__ == "__main__":
    main(BENCHMARKS)
