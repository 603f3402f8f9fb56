"""What a run of the workflow shows in the terminal: a line for each data set and training, what runs, the time left.

Snakemake finds this package by its name, and `logger: equiset` in `profiles/default` chooses it. Snakemake's own log
is written to `.snakemake/log` as always. Whoever asks for details (--dry-run, --printshellcmds, --verbose, --debug-dag)
gets them from Snakemake's own console instead.
"""

import shutil
import sys
import time
from collections import Counter, defaultdict
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
_LOG_LINES = 20
"""What is shown of a failed job's log."""


class TimeLeft:
    """Estimates how long a run will go on, from the mean time of finished jobs of the same rule."""

    def __init__(self, jobs: dict[str, int]) -> None:
        self.waiting = Counter(jobs)
        self.total = self.waiting.total()
        self.done = 0
        self._running: dict[int, tuple[str, float]] = {}
        self._at_once = 1
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def start(self, job: int, rule: str) -> None:
        self.waiting[rule] -= 1
        self._running[job] = rule, time.monotonic()
        self._at_once = max(self._at_once, len(self._running))

    def finish(self, job: int) -> float:
        """Return the seconds that a job took."""
        rule, started = self._running.pop(job)
        seconds = time.monotonic() - started
        self._seconds[rule].append(seconds)
        self.done += 1
        return seconds

    def seconds(self) -> float | None:
        """Return the estimate; None while there are trainings to finish and none has ended."""
        to_come = [*self.waiting.elements(), *(rule for rule, _ in self._running.values())]
        if "train" in to_come and not self._seconds["train"]:
            return None
        left = sum(self._usual(rule) for rule in self.waiting.elements())
        now = time.monotonic()
        left += sum(max(0.0, self._usual(rule) - (now - started)) for rule, started in self._running.values())
        return left / self._at_once

    def _usual(self, rule: str) -> float:
        return fmean(self._seconds[rule] or [0.0])


class LogHandler(LogHandlerBase):
    """Takes Snakemake's log records, in a thread of their own, and prints few of them."""

    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        self.stream = sys.stderr
        self.terminal = self.stream.isatty()
        self.left = TimeLeft({})
        self.running: dict[int, LogRecord] = {}
        self.printed = time.monotonic()

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
            self.left.start(record.jobid, record.rule_name)
        elif event == LogEvent.JOB_FINISHED and record.job_id in self.running:
            job, seconds = self.running.pop(record.job_id), self.left.finish(record.job_id)
            if job.rule_name == "train":
                self._say(f"{job.rule_msg.partition(' (')[0]}: {result_of(job.output)}, {clock(seconds)}")
            elif job.rule_name == "fetch":
                self._say(f"{job.rule_msg}: done, {clock(seconds)}")
        elif event == LogEvent.JOB_ERROR:
            job = self.running.pop(record.jobid, None)
            self._print(f"FAILED: {job.rule_msg if job else record.rule_name}", *end_of(record.log))
        elif event == LogEvent.RUN_INFO:
            self.left = TimeLeft({rule: count for rule, count in record.stats.items() if rule != "total"})
            trainings = record.stats.get("train", 0)
            self._print(f"{self.left.total} jobs to run, {trainings} of them trainings. Logs: results/<scale>/logs/")
        elif event == LogEvent.ERROR and record.msg.startswith("RuleException:\nCalledProcessError"):
            pass  # the whole command of a failed job, which is reported by JOB_ERROR as well
        elif record.levelno >= WARNING or (event is None and not record.msg.startswith(_CHATTER)):
            self._print(record.msg)
        self._show_state()

    def _say(self, text: str) -> None:
        self._print(f"{time.strftime('%H:%M:%S')}  {self._progress()}  {text}")

    def _progress(self) -> str:
        left = self.left.seconds()
        return f"[{self.left.done}/{self.left.total}{'' if left is None else f', {clock(left)} left'}]"

    def _show_state(self) -> None:
        """Say what runs: in the last line of a terminal, elsewhere now and then."""
        jobs = "; ".join(job.rule_msg.partition(" (")[0] for job in self.running.values() if job.rule_msg)
        if not jobs:
            return
        if self.terminal:
            line = f"{self._progress()} {jobs}"
            self.stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
            self.stream.flush()
        elif time.monotonic() - self.printed > _SILENT_SECONDS:
            self._say(f"now: {jobs}")

    def _print(self, *lines: str) -> None:
        self.printed = time.monotonic()
        clear = "\r\x1b[K" if self.terminal else ""
        self.stream.write(clear + "".join(f"{line}\n" for line in lines))
        self.stream.flush()

    def close(self) -> None:
        if self.terminal and self.writes_to_stream:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
        super().close()


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
    name = next(
        name for part in ("validation", "train") for name in last if name.startswith(part) and "loss" not in name
    )
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
