"""Show trainings in MLflow while they run: a process beside the workflow that reads what they tell in their files.

Nothing waits for it. It ends when nobody holds the other end of its standard input any more (the workflow, or the
pages of `make ui`) and no training on this machine is under way. Several may follow the same trainings.
"""

import argparse
import logging
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from equiset.masking import keep_secrets_of, scrub, with_secrets
from equiset.progress import Told, read, stamp

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
    follow(Follower(uri, arguments.results))


def follow(follower: "Follower") -> None:
    """Look into the files every few seconds, until all is over."""
    pause, over = 0.0, False
    while True:
        over = over or _over(pause)
        try:
            under_way = follower.look(over)
            pause = _SECONDS
        except Exception as error:  # whatever it is, the trainings go on and their files stay
            log.warning("not everything was sent: %s", scrub(f"{type(error).__name__}: {error}", follower.uri))
            under_way, pause = False, min(2 * pause + _SECONDS, _LONGEST_PAUSE)
        if over and not under_way:
            return
        if over:
            time.sleep(pause)


def _over(seconds: float) -> bool:
    """Wait, and say whether the other end of the standard input was given up."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and not os.read(sys.stdin.fileno(), 1024)


@dataclass
class Follower:
    """Brings MLflow up to what the trainings' files say."""

    uri: str
    results: Path
    _began: int = field(default_factory=time.time_ns)
    _seen: dict[Path, tuple] = field(default_factory=dict)
    _epochs: dict[Path, int] = field(default_factory=dict)
    """How many of a training were sent."""

    def look(self, over: bool) -> bool:
        """Send what is new, and say whether a training is under way; `over`: the workflow has ended."""
        under_way, faults = False, []
        for path in sorted(self.results.glob("*/*/checkpoints/*.jsonl")):
            try:
                now = (*stamp(path), over)
                under_way |= now[2]
                if self._seen.get(path) != now and (told := read(path, over)) is not None:
                    self._send(path, told, before=now[0] < self._began)
                    self._seen[path] = now
            except Exception as error:  # one damaged file hides none of the others
                faults.append(error)
        if faults:
            raise faults[0]
        return under_way

    def _send(self, path: Path, told: Told, before: bool) -> None:
        # Here, because the Snakefile imports this module, and they take seconds.
        from equiset.results.runs import Run
        from equiset.results.summary import Findings
        from equiset.tracking.tracker import open_experiment, sending

        with sending(self.uri):
            tracker = open_experiment(self.uri, told.about["spec"]["experiment"])
            if before and told.end and path not in self._epochs:
                # What ended before this process came is not its business, unless nobody said so.
                run = tracker.find_training(told.about)
                if run is None or run.info.status != "RUNNING":
                    return
            folder = Path(told.about["folder"])
            run = tracker.begin(folder, told.about)
            tracker.send_epochs(run, told.metrics, told.seconds, self._epochs.get(path, 0))
            self._epochs[path] = len(told.metrics)
            done = told.end == "finished" and (folder / "run.json").is_file()
            if not (done and tracker.send_run(Run(folder), Findings()) == run.info.run_id):
                tracker.set_status(run, _STATUS[told.end], told.why)


if __name__ == "__main__":
    main()
