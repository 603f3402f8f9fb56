"""A training in MLflow while it runs: its run gets one batch of metrics an epoch.

MLflow is a view. If its store cannot be reached, that costs a warning and no training.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equiset.tracking import first_line, store_uri
from equiset.training.loop import Listener, Progress

if TYPE_CHECKING:
    from equiset.tracking.tracker import Tracker

log = logging.getLogger(__name__)

AFTER_S = 10.0
"""Seconds after which a training appears. Importing MLflow takes three, and what ends sooner is sent by `track`."""


@contextmanager
def live(uri: str | None, folder: Path) -> Iterator[Callable[[dict[str, Any]], Listener]]:
    """Yield what `train_run` takes as `watch`: it opens the run of the training and logs one batch an epoch.

    Args:
        uri: tracking server or database; None for the environment's, or the project's own.
        folder: where the results of the run will be.
    """
    watched = _Watched(store_uri(uri), folder)
    try:
        yield watched.start
    except Exception as error:
        watched.fail(f"{type(error).__name__}: {error}")
        raise


class _Watched:
    """The run of a training that is under way."""

    def __init__(self, uri: str, folder: Path):
        self.uri, self.folder = uri, folder
        self.away = False
        self.epochs = 0
        self.about: dict[str, Any] = {}
        self.started = 0.0

    def start(self, about: dict[str, Any]) -> Listener:
        self.about, self.started = about, time.monotonic()
        return self.log

    def log(self, progress: Progress) -> None:
        """Log the epochs that are not there yet."""
        if time.monotonic() - self.started < AFTER_S:
            return

        def send(tracker: "Tracker") -> None:
            run = tracker.begin(self.folder, self.about)
            if run.info.status != "RUNNING":  # it goes on after a failure
                tracker.set_status(run, "RUNNING", "")
            tracker.send_epochs(run, progress.metrics, progress.epoch_seconds, self.epochs)
            self.epochs = len(progress.metrics)

        self._try(send)

    def fail(self, why: str) -> None:
        """Say that the training failed, and why."""
        if self.about:
            self._try(lambda tracker: tracker.set_status(tracker.begin(self.folder, self.about), "FAILED", why))

    def _try(self, send: "Callable[[Tracker], None]") -> None:
        if self.away:
            return
        try:
            from equiset.tracking.tracker import open_experiment, sending

            with sending(self.uri):
                send(open_experiment(self.uri, self.about["spec"]["experiment"]))
        except Exception as error:  # whatever MLflow or its store raise: a view never stops a training
            self.away = True
            log.warning("MLflow shows this training when all is done: %s", first_line(error, self.uri))
