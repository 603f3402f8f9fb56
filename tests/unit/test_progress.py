"""A training tells how far it is; who reads can tell one that runs from one that was killed."""

import os
import signal
import subprocess
import sys

import pytest

from equiset.progress import read, stamp, telling

ROWS = [{"epoch": 1, "train_loss": 0.5}, {"epoch": 2, "train_loss": float("nan")}]
TRAINING = """
import sys, time
from pathlib import Path
from equiset.progress import telling
with telling(Path(sys.argv[1]), {"training": "t"}) as tell:
    tell([{"epoch": 1, "train_loss": 0.5}], [1.0])
    print("told", flush=True)
    time.sleep(60)
"""


def start(path):
    process = subprocess.Popen([sys.executable, "-c", TRAINING, str(path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"told\n"
    return process


def test_what_is_told_can_be_read_while_it_is_told(tmp_path):
    path = tmp_path / "checkpoints" / "one.jsonl"
    with telling(path, {"training": "t"}) as tell:
        assert read(path, False).metrics == []
        tell(ROWS[:1], [1.5])
        before = stamp(path)
        tell(ROWS, [1.5, 2.5])
        assert stamp(path) != before
        told = read(path, False)
        assert [row["epoch"] for row in told.metrics] == [1, 2]
        assert told.seconds == [1.5, 2.5]
        assert (told.about["training"], told.end) == ("t", "")
    assert read(path, False).end == "finished"


def test_a_failure_is_told_with_its_reason(tmp_path):
    with pytest.raises(ValueError, match="too high"), telling(tmp_path / "one.jsonl", {}):
        raise ValueError("too high")
    told = read(tmp_path / "one.jsonl", False)
    assert (told.end, told.why) == ("failed", "ValueError: too high")


def test_a_training_that_was_killed_is_told_apart_and_goes_on_in_the_same_file(tmp_path):
    path = tmp_path / "one.jsonl"
    process = start(path)
    assert read(path, False).end == ""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert read(path, False).end == "killed"
    with telling(path, {"training": "t"}) as tell:
        tell(ROWS, [1.0, 2.0])
        assert read(path, False).end == ""
        assert len(read(path, False).metrics) == 2


def test_a_training_elsewhere_is_killed_only_when_all_is_over(tmp_path):
    """On some clusters' file systems a lock is seen on its own machine alone."""
    path = tmp_path / "one.jsonl"
    path.write_text('{"training": "t", "host": "another-machine"}\n{"metrics": {"epoch": 1}, "seconds": 1')
    assert read(path, over=False).end == ""
    assert read(path, over=True).end == "killed"
    assert read(path, over=True).metrics == []  # the last line has not arrived whole


def test_a_file_that_cannot_be_written_costs_the_training_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with telling(tmp_path / "file" / "one.jsonl", {}) as tell:
        tell(ROWS, [1.0, 2.0])
    assert "nobody can follow" in caplog.text


def test_a_second_training_of_the_same_leaves_the_file_to_the_first(tmp_path, caplog):
    path = tmp_path / "one.jsonl"
    with telling(path, {"training": "first"}), telling(path, {"training": "second"}):
        assert read(path, False).about["training"] == "first"
    assert "nobody can follow" in caplog.text
