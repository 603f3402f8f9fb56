"""A training in MLflow while it runs: it opens its run, logs one batch of metrics after each epoch, and closes it.

If the store cannot be reached, that costs a warning and no training: `send` sends from the files what is missing.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from equiset.tracking import reason, store_uri
from equiset.training.loop import Listener, Progress

if TYPE_CHECKING:
    from mlflow.entities import Run

    from equiset.tracking.tracker import Tracker

log = logging.getLogger(__name__)

AFTER_S = 10.0
"""Seconds after which a training appears. One that ends sooner is sent by `send`, and need not import MLflow."""


@contextmanager
def live(uri: str | None) -> Iterator[Callable[[dict[str, Any]], Listener]]:
    """Yield what `train_run` takes as `watch`.

    Args:
        uri: tracking server or database; None for the environment's, or the project's own.
    """
    run = _LiveRun(store_uri(uri))
    try:
        yield run.start
    except Exception as error:
        run.close("FAILED", f"{type(error).__name__}: {error}")
        raise
    run.close("FINISHED")


class _LiveRun:
    """The run of a training that is under way."""

    def __init__(self, uri: str):
        self.uri = uri
        self.info: dict[str, Any] = {}
        self.started = time.monotonic()
        self.opened: tuple[Tracker, Run] | None = None
        self.epochs = 0
        """How many were logged."""
        self.away = False
        """Whether the store could not be reached."""

    def start(self, info: dict[str, Any]) -> Listener:
        self.info, self.started = info, time.monotonic()
        return self.log

    def log(self, progress: Progress) -> None:
        """Log the epochs that are not there yet."""
        if time.monotonic() - self.started < AFTER_S:
            return

        def send(tracker: "Tracker", run: "Run") -> None:
            tracker.log_epochs(run, progress.metrics, progress.epoch_seconds, self.epochs)
            self.epochs = len(progress.metrics)

        self._try(send)

    def close(self, status: str, failure: str = "") -> None:
        """Close the run. A training that fails before its run is open gets one, for the reason."""
        if self.opened or (failure and self.info):
            self._try(lambda tracker, run: tracker.set_status(run, status, failure))

    def _try(self, send: "Callable[[Tracker, Run], None]") -> None:
        """Send something to the run, opening it first if needed, unless the store is away."""
        if self.away:
            return
        try:
            if not self.opened:
                self.opened = self._open()
            send(*self.opened)
        except Exception as error:  # whatever MLflow or its store raise: no training stops for it
            self.away = True
            log.warning("MLflow shows this training when all is done: %s", reason(error, self.uri))

    def _open(self) -> "tuple[Tracker, Run]":
        from equiset.tracking.tracker import open_experiment

        tracker = open_experiment(self.uri, self.info["spec"]["experiment"])
        run = tracker.open_training(self.info, self.info["spec"]["scale"])
        tracker.set_status(run, "RUNNING")
        return tracker, tracker.client.get_run(run.info.run_id)  # without the failure of an earlier start
