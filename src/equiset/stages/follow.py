"""Show trainings in MLflow while they run: a process beside the workflow that reads what they tell in their files.

Nothing waits for it. It ends when nobody holds the other end of its standard input any more (the workflow, or the
pages of `make ui`) and no training on this machine is under way.
"""

import argparse
import fcntl
import logging
import os
import select
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from equiset.files import read_json
from equiset.masking import keep_secrets_of, scrub, with_secrets
from equiset.progress import Told, read, stamp

if TYPE_CHECKING:
    from equiset.results.runs import Run
    from equiset.tracking import MlflowRun, Tracker

# Others come when there is something to send: the Snakefile imports this, and they take seconds.

log = logging.getLogger(__name__)

_SECONDS = 5.0
_LONGEST_PAUSE = 60.0  # while the server is away
_STATUS = {"": "RUNNING", "finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}


def start(uri: str, results: Path = Path("results")) -> subprocess.Popen:
    """Start to follow the trainings; it ends by itself after the process that holds what is returned."""
    results.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "equiset.stages.follow", "--uri", uri, "--results", str(results)]
    with (results / "mlflow-live.log").open("ab") as output:
        # A session of its own, because Ctrl-C is meant for the workflow; what that leaves behind is still told.
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uri", required=True, help="tracking server, or sqlite:///path")
    parser.add_argument("--results", required=True, type=Path, help="folder of all results")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(message)s")
    os.nice(10)
    uri = with_secrets(arguments.uri)
    keep_secrets_of(uri)
    with (arguments.results / "mlflow-live.lock").open("w", encoding="utf-8") as lock:
        if _take_turn(lock):
            follow(Follower(uri, arguments.results))


def _take_turn(lock: TextIO) -> bool:
    """Wait until no other process follows the same results; say whether there is still somebody to do it for."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if _over(_SECONDS):
                return False


def _over(seconds: float) -> bool:
    """Wait, and say whether the other end of the standard input was given up."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and not os.read(sys.stdin.fileno(), 1024)


def follow(follower: "Follower") -> None:
    """Look into the files every few seconds, until all is over."""
    pause, over = _SECONDS, False
    while True:
        try:
            under_way = follower.look(over)
            pause = _SECONDS
        except Exception as error:  # whatever it is, the trainings go on and their files stay
            log.warning("nothing was sent: %s", scrub(f"{type(error).__name__}: {error}", follower.uri))
            under_way = False
            pause = min(2 * pause, _LONGEST_PAUSE)
        if over and not under_way:
            return
        over = over or _over(pause)
        if over and under_way:
            select.select([], [], [], pause)


@dataclass
class Follower:
    """Brings MLflow up to what the trainings' files say."""

    uri: str
    results: Path
    _seen: dict[Path, tuple] = field(default_factory=dict)
    _sent: dict[Path, tuple["MlflowRun", int, str]] = field(default_factory=dict)
    """The run, the number of its epochs and its status in MLflow."""
    _trackers: dict[str, "Tracker"] = field(default_factory=dict)
    _finished: list[tuple["Tracker", "Run"]] = field(default_factory=list)
    _left: dict[str, set[str]] = field(default_factory=dict)
    """By experiment: the trainings that MLflow took for running when this process came."""

    def look(self, over: bool) -> bool:
        """Send what is new, and say whether a training is under way.

        Args:
            over: whether the workflow has ended.
        """
        under_way = False
        if over:
            self._complete()
        for path in sorted(self.results.glob("*/*/checkpoints/*.jsonl")):
            now = (*stamp(path), over)
            if self._seen.get(path) != now and (told := read(path, over)) is not None:
                self._send(path, told)
                self._seen[path] = now
            under_way |= now[2]
        return under_way

    def _send(self, path: Path, told: Told) -> None:
        from equiset.results.runs import Run
        from equiset.tracking import sending

        spec = told.about["spec"]
        with sending(self.uri):
            tracker = self._tracker(spec["experiment"])
            # What ended before is not this process's business, unless nobody said so.
            if path not in self._seen and told.end and told.about["training"] not in self._left[spec["experiment"]]:
                return
            folder = Path(told.about["folder"])
            if path not in self._sent:
                run = tracker.begin(folder, told.about)
                self._sent[path] = run, 0, run.info.status
            run, known, before = self._sent[path]
            tracker.send_epochs(run, told.metrics, told.seconds, known)
            status = _STATUS[told.end]
            if told.end == "finished" and _is_result(folder, told):
                tracker.send_run(Run(folder))
                self._finished.append((tracker, Run(folder)))
            elif status != before:
                tracker.set_status(run, status, told.why)
            self._sent[path] = run, len(told.metrics), status

    def _complete(self) -> None:
        """Send what was made of the networks meanwhile; a workflow that failed elsewhere does not come to that."""
        from equiset.tracking import sending

        with sending(self.uri):
            for tracker, run in self._finished:
                tracker.send_run(run)
        self._finished = []

    def _tracker(self, experiment: str) -> "Tracker":
        from equiset.stages.track import open_described

        if experiment not in self._trackers:
            self._trackers[experiment] = tracker = open_described(self.uri, experiment)
            self._left[experiment] = tracker.running()
        return self._trackers[experiment]


def _is_result(folder: Path, told: Told) -> bool:
    """Say whether a folder holds the result of a training, and not of another one."""
    path = folder / "run.json"
    return path.is_file() and read_json(path).get("training") == told.about["training"]


if __name__ == "__main__":
    main()
