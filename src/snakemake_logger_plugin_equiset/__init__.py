"""What a run of the workflow shows in the terminal: a line for each data set and training, what runs, the time left.

Snakemake finds this package by its name, and `logger: equiset` in `profiles/default` chooses it. Snakemake's own log
is written to `.snakemake/log` as always. Whoever asks for details (--dry-run, --printshellcmds, --verbose, --debug-dag)
gets them from Snakemake's own console instead.
"""

import re
import shutil
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from logging import WARNING, LogRecord
from pathlib import Path
from statistics import fmean

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

_CHATTER = (
    *("Assuming unrestricted", "Building DAG", "Config file", "Conda environments", "Singularity", "Group jobs"),
    *("Using shell", "Select jobs", "Storing output", "Removing output", "Will exit after", "Shutting down"),
)
"""How messages of Snakemake begin that are only of use in its log."""
_SILENT_SECONDS = 30
"""Where there is no terminal to rewrite a line on, the state is printed when nothing else was for so long."""
_REFRESH_SECONDS = {True: 5, False: 300}
"""How often what runs is shown anew in a terminal, and where there is none (a batch job's log, say)."""
_EPOCH = re.compile(r" epoch (\d+)/(\d+) .*seconds=([\d.]+)$", re.MULTILINE)
"""What a training logs of an epoch (equiset.training.loop)."""
_LOG_LINES = 20
"""What is shown of a failed job's log."""


@dataclass
class Running:
    """A job that runs, and where it writes its log."""

    rule: str
    log: Path | None = None
    started: float = field(default_factory=lambda: time.monotonic())

    def __post_init__(self) -> None:
        # A log is appended to: what an earlier training wrote there says nothing of this one.
        self._earlier = self.log.stat().st_size if self.log and self.log.is_file() else 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def epoch(self) -> tuple[int, int, float] | None:
        """Return the last epoch that a training has logged, the number of epochs, and the seconds that one takes."""
        if self.rule != "train" or not self.log or not self.log.is_file():
            return None
        with self.log.open("rb") as file:
            file.seek(self._earlier)
            logged = _EPOCH.findall(file.read().decode("utf-8", errors="replace"))
        return (int(logged[-1][0]), int(logged[-1][1]), float(logged[-1][2])) if logged else None


class TimeLeft:
    """Estimates how long a run will go on.

    A training takes as long as its remaining epochs, judged by the last one. How long a training takes that has not
    begun is unknown, as networks differ in cost by a factor of fifty: while any waits, there is no estimate. Other jobs
    take as long as finished ones of their rule, or of any other rule but trainings.
    """

    def __init__(self, jobs: dict[str, int]) -> None:
        self.waiting = Counter(jobs)
        self.total = self.waiting.total()
        self.done = 0
        self.running: dict[int, Running] = {}
        self._at_once = 1
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def start(self, job: int, rule: str, log: Path | None = None) -> None:
        self.waiting[rule] -= 1
        self.running[job] = Running(rule, log)
        self._at_once = max(self._at_once, len(self.running))

    def finish(self, job: int) -> float:
        """Return the seconds that a job took."""
        ended = self.running.pop(job)
        self._seconds[ended.rule].append(ended.seconds)
        self.done += 1
        return ended.seconds

    def seconds(self) -> float | None:
        """Return the estimate, or None if there is nothing to base it on."""
        if self.waiting["train"] > 0:
            return None
        waiting = [self._usual(rule) for rule in self.waiting.elements()]
        parts = [*waiting, *(self._left_of(job) for job in self.running.values())]
        if None in parts:
            return None
        # One job at a time cannot be shared among cores.
        return max(sum(parts) / self._at_once, *(parts[len(waiting) :] or [0.0]))

    def _left_of(self, job: Running) -> float | None:
        if job.rule == "train":
            return left_of_training(job)
        usual = self._usual(job.rule)
        # What runs longer than usual is taken to be half done.
        return usual and (usual - job.seconds if job.seconds < usual else job.seconds)

    def _usual(self, rule: str) -> float | None:
        others = [seconds for name, all_of in self._seconds.items() if name != "train" for seconds in all_of]
        known = self._seconds.get(rule, others)
        return fmean(known) if known else None


def left_of_training(job: Running) -> float | None:
    """Return the seconds that a training still takes, or None before its first epoch has ended."""
    epoch = job.epoch()
    return epoch and (epoch[1] - epoch[0]) * epoch[2]


class LogHandler(LogHandlerBase):
    """Takes Snakemake's log records, in a thread of their own, and prints few of them."""

    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        self.stream = sys.stderr
        self.terminal = self.stream.isatty()
        self.left = TimeLeft({})
        self.running: dict[int, LogRecord] = {}
        self.printed = time.monotonic()
        self.closed = threading.Event()
        if self.writes_to_stream:
            threading.Thread(target=self._keep_current, daemon=True).start()

    @property
    def writes_to_stream(self) -> bool:
        asked = self.common_settings
        return not (asked.dryrun or asked.printshellcmds or asked.verbose or asked.debug_dag)

    def emit(self, record: LogRecord) -> None:
        if not self.writes_to_stream:
            return
        try:
            self._take(record)
        except Exception:
            self.handleError(record)

    def _take(self, record: LogRecord) -> None:
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO:
            self.running[record.jobid] = record
            self.left.start(record.jobid, record.rule_name, Path(record.log[0]) if record.log else None)
        elif event == LogEvent.JOB_FINISHED and record.job_id in self.running:
            job, seconds = self.running.pop(record.job_id), self.left.finish(record.job_id)
            if job.rule_name == "train":
                self._say(f"{job.rule_msg.partition(' (')[0]}: {result_of(job.output)}, {clock(seconds)}")
            elif job.rule_name == "fetch":
                self._say(f"{job.rule_msg}: done, {clock(seconds)}")
        elif event == LogEvent.JOB_ERROR:
            job = self.running.pop(record.jobid, None)
            self.left.running.pop(record.jobid, None)
            self._print(f"FAILED: {job.rule_msg if job else record.rule_name}", *end_of(record.log))
        elif event == LogEvent.RUN_INFO:
            self.left = TimeLeft({rule: count for rule, count in record.stats.items() if rule != "total"})
            trainings = record.stats.get("train", 0)
            jobs = f"{self.left.total} job{'s' if self.left.total > 1 else ''} to run"
            self._print(f"{jobs}, {trainings} of them trainings. Logs: results/<scale>/logs/")
        elif event == LogEvent.ERROR and record.msg.startswith("RuleException:\nCalledProcessError"):
            pass  # the whole command of a failed job, which is reported by JOB_ERROR as well
        elif record.levelno >= WARNING or (event is None and not record.msg.startswith(_CHATTER)):
            self._print(record.msg)
        self._show_state()

    def _say(self, text: str) -> None:
        self._print(f"{time.strftime('%H:%M:%S')}  {self._progress()}  {text}")

    def _progress(self) -> str:
        return f"[{self.left.done}/{self.left.total}{in_words(self.left.seconds())}]"

    def _show_state(self) -> None:
        """Say what runs: in the last line of a terminal, elsewhere now and then."""
        jobs = "; ".join(self._state_of(number, job) for number, job in self.running.items() if job.rule_msg)
        if not jobs:
            return
        if self.terminal:
            line = f"{self._progress()} {jobs}"
            self.stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
            self.stream.flush()
        elif time.monotonic() - self.printed > _SILENT_SECONDS:
            self._say(f"now: {jobs}")

    def _state_of(self, number: int, job: LogRecord) -> str:
        what, running = job.rule_msg.partition(" (")[0], self.left.running[number]
        if not (epoch := running.epoch()):
            return what
        return f"{what} (epoch {epoch[0]}/{epoch[1]}{in_words(left_of_training(running))})"

    def _keep_current(self) -> None:
        """Show the state anew now and then: a training may run for hours without a word of Snakemake's."""
        while not self.closed.wait(_REFRESH_SECONDS[self.terminal]):
            with self.lock:
                self._show_state()

    def _print(self, *lines: str) -> None:
        self.printed = time.monotonic()
        clear = "\r\x1b[K" if self.terminal else ""
        self.stream.write(clear + "".join(f"{line}\n" for line in lines))
        self.stream.flush()

    def close(self) -> None:
        self.closed.set()
        if self.terminal and self.writes_to_stream:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
        super().close()


def in_words(left: float | None) -> str:
    """Return the time left as it follows a count; nothing where it is unknown, or too short to be one."""
    return "" if left is None or left < 1 else f", {clock(left)} left"


def clock(seconds: float) -> str:
    """Return a time for people: 0:07, 12:30, 3 h 05."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def result_of(files: list[str]) -> str:
    """Return what a training reached in its last epoch, from its metrics."""
    import pyarrow.parquet as pq

    try:
        last = pq.read_table(next(file for file in files if file.endswith("metrics.parquet"))).to_pylist()[-1]
    except (OSError, StopIteration):  # it may be in a storage elsewhere
        return "done"
    names = [name for part in ("validation", "train") for name in last if name.startswith(part)]
    name = min(names, key=lambda name: "loss" in name)  # the loss only where there is nothing else
    value, words = last[name], name.replace("train_", "training_").replace("_", " ")
    return f"{words} {value:.1%}".replace("%", " %") if name.endswith("accuracy") else f"{words} {value:.4f}"


def end_of(logs: list[str]) -> list[str]:
    """Return where a failed job's logs are, and how they end."""
    lines = []
    for log in logs:
        path = Path(log)
        said = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
        lines += [f"  {log}:", *(f"    {line}" for line in said[-_LOG_LINES:])]
    return lines
