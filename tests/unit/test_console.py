"""What a run shows in the terminal."""

import io
import logging
import time
from types import SimpleNamespace

import pandas as pd
import pytest
from snakemake_interface_logger_plugins.common import LogEvent

import snakemake_logger_plugin_equiset as console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(console.time, "monotonic", lambda: now.seconds)
    return now


def handler(monkeypatch, stream, **asked):
    monkeypatch.setattr(console.sys, "stderr", stream)
    settings = dict.fromkeys(("dryrun", "printshellcmds", "verbose", "debug_dag"), False) | asked
    return console.LogHandler(SimpleNamespace(**settings), None)


def say(to, message="", level=logging.INFO, **extra):
    record = logging.LogRecord("snakemake", level, "", 0, message, None, None)
    vars(record).update(extra)
    to.emit(record)


def start(to, job, rule, message="", output=(), log=()):
    more = {"rule_name": rule, "rule_msg": message, "output": list(output), "log": list(log)}
    say(to, event=LogEvent.JOB_INFO, jobid=job, **more)


def finish(to, job):
    say(to, "Finished jobid", event=LogEvent.JOB_FINISHED, job_id=job)


def test_a_training_has_one_line_with_its_result(monkeypatch, clock, tmp_path):
    file = tmp_path / "metrics.parquet"
    pd.DataFrame({"epoch": [1, 2], "train_accuracy": [0.1, 0.2], "validation_accuracy": [None, 0.8412]}).to_parquet(
        file
    )
    stream = io.StringIO()
    to = handler(monkeypatch, stream)
    say(to, "Job stats", event=LogEvent.RUN_INFO, stats={"fetch": 1, "train": 3, "total": 4})
    say(to, "Select jobs to execute...")
    start(to, 1, "fetch", message="Fetching mnist")
    finish(to, 1)
    start(to, 2, "train", "Training mnist_sums IV-N3, seed 0 (log: x.log)", ["run.json", str(file)])
    clock.seconds = 20
    finish(to, 2)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "4 jobs to run, 3 of them trainings. Logs: results/<scale>/logs/"
    assert lines[1].endswith("[1/4]  Fetching mnist: done, 0:00")
    assert lines[2].endswith("[2/4]  Training mnist_sums IV-N3, seed 0: validation accuracy 84.1 %, 0:20")
    assert len(lines) == 3


def log_epochs(path, epochs, total, seconds):
    """Append what a training logs."""
    with path.open("a") as file:
        for epoch in range(1, epochs + 1):
            file.write(f"12:00:00 INFO epoch {epoch}/{total} train_loss=0.1 seconds={seconds}\n")


def test_there_is_no_estimate_while_a_training_waits_or_is_in_its_first_epoch(clock, tmp_path):
    left, logs = console.TimeLeft({"train": 3, "plot": 1}), [tmp_path / f"{number}.log" for number in range(3)]
    log_epochs(logs[2], 30, 30, 1)  # of an earlier run, which says nothing of this one
    left.start(0, "train", logs[0])
    left.start(1, "train", logs[1])
    clock.seconds = 10
    left.finish(0)
    log_epochs(logs[1], 1, 6, 7.5)
    assert left.seconds() is None, "one training waits"
    left.start(2, "train", logs[2])
    assert left.seconds() is None, "it has ended no epoch"
    log_epochs(logs[2], 2, 38, 60)
    assert left.seconds() is None, "how long a plot takes is unknown"
    left.start(3, "plot")
    clock.seconds = 14
    left.finish(3)
    assert left.seconds() == 36 * 60, "the longest training, whatever else runs beside it"
    left.finish(2)
    assert left.seconds() == 5 * 7.5
    assert (left.done, left.total) == (3, 4)


def test_the_time_left_counts_jobs_side_by_side_and_those_that_run(clock):
    left = console.TimeLeft({"plot": 6, "judge": 1})
    left.start(1, "plot")
    left.start(2, "plot")
    assert left.seconds() is None, "nothing has ended"
    clock.seconds = 10
    assert left.finish(2) == 10
    left.start(3, "plot")
    clock.seconds = 12
    # The first has taken longer than usual: as long again. The third needs 8, and three plots and a judgement wait.
    assert left.seconds() == (12 + 8 + 4 * 10) / 2


def test_a_running_training_shows_its_epoch(monkeypatch, clock, tmp_path):
    stream, log = Terminal(), tmp_path / "seed0.log"
    to = handler(monkeypatch, stream)
    say(to, "Job stats", event=LogEvent.RUN_INFO, stats={"train": 2, "total": 2})
    start(to, 1, "train", "Training redshift set, seed 0 (log: x)", log=[str(log)])
    log_epochs(log, 2, 38, 60)
    say(to, "Select jobs to execute...")
    assert stream.getvalue().endswith("\x1b[K[0/2] Training redshift set, seed 0 (epoch 2/38, 36:00 left)")
    log_epochs(log, 38, 38, 60)
    say(to, "Select jobs to execute...")
    assert stream.getvalue().endswith("\x1b[K[0/2] Training redshift set, seed 0 (epoch 38/38)")
    to.close()


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "log file"])
def test_what_runs_is_kept_current_without_a_word_of_snakemakes(monkeypatch, tmp_path, stream):
    monkeypatch.setattr(console, "_REFRESH_SECONDS", {True: 0.01, False: 0.01})
    monkeypatch.setattr(console, "_SILENT_SECONDS", 0.1)
    log = tmp_path / "seed0.log"
    to = handler(monkeypatch, stream)
    start(to, 1, "train", "Training redshift set, seed 0", log=[str(log)])
    log_epochs(log, 3, 4, 5)
    deadline = time.monotonic() + 30
    while "(epoch 3/4, 0:05 left)" not in stream.getvalue():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    to.close()


def test_a_terminal_shows_what_runs_in_its_last_line(monkeypatch, clock):
    stream = Terminal()
    to = handler(monkeypatch, stream)
    say(to, "Job stats", event=LogEvent.RUN_INFO, stats={"plot": 1, "total": 1})
    start(to, 1, "plot", "Drawing figure5.png")
    assert stream.getvalue().startswith("\r\x1b[K1 job to run")
    assert stream.getvalue().endswith("\r\x1b[K[0/1] Drawing figure5.png")
    finish(to, 1)
    to.close()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_elsewhere_it_is_said_now_and_then(monkeypatch, clock):
    stream = io.StringIO()
    to = handler(monkeypatch, stream)
    for job in range(20):
        clock.seconds += 4
        start(to, job, "plot", f"Drawing {job}")
        finish(to, job)
    assert [line.partition("  now: ")[2] for line in stream.getvalue().splitlines()] == ["Drawing 7", "Drawing 15"]


def test_a_failure_shows_the_end_of_its_log(monkeypatch, tmp_path):
    log = tmp_path / "seed0.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)) + "the reason\n")
    stream = io.StringIO()
    to = handler(monkeypatch, stream)
    start(to, 1, "train", "Training redshift set, seed 0")
    say(
        to, "Error in rule", logging.ERROR, event=LogEvent.JOB_ERROR, jobid=1, rule_name="train", log=[str(log), "gone"]
    )
    lines = stream.getvalue().splitlines()
    assert lines[0] == "FAILED: Training redshift set, seed 0"
    assert "    the reason" in lines
    assert len(lines) == 23
    say(to, "WorkflowError:\nAt least one job did not complete successfully.", logging.ERROR, event=LogEvent.ERROR)
    assert len(stream.getvalue().splitlines()) == 25


@pytest.mark.parametrize("option", ["dryrun", "printshellcmds", "verbose", "debug_dag"])
def test_who_asks_for_details_gets_snakemakes_own_console(monkeypatch, option):
    stream = io.StringIO()
    to = handler(monkeypatch, stream, **{option: True})
    assert not to.writes_to_stream
    say(to, "anything", logging.ERROR)
    to.close()
    assert not stream.getvalue()


def test_what_has_no_validation_shows_its_training(tmp_path):
    file = tmp_path / "metrics.parquet"
    pd.DataFrame({"epoch": [1], "train_loss": [0.5], "train_scatter": [0.03124]}).to_parquet(file)
    assert console.result_of([str(file)]) == "training scatter 0.0312"
    pd.DataFrame({"epoch": [1], "train_loss": [0.5]}).to_parquet(file)
    assert console.result_of([str(file)]) == "training loss 0.5000"
    assert console.result_of(["elsewhere/metrics.parquet"]) == "done"


def test_times_are_for_people():
    assert [console.clock(seconds) for seconds in (7, 750, 11100)] == ["0:07", "12:30", "3 h 05"]
