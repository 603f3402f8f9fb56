"""Files are whole or absent, one that is damaged is named, and errors are one line."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equiset.errors import EquisetError, MissingFileError, one_line_errors
from equiset.files import atomic_path, read_json, read_parquet, write_json, write_parquet

SOURCES = Path(__file__).parents[2] / "src"


def test_what_is_written_is_read_again(tmp_path):
    write_json(tmp_path / "a.json", {"b": [1, None, "ä"]})
    assert read_json(tmp_path / "a.json") == {"b": [1, None, "ä"]}
    table = pd.DataFrame({"x": [1, 2], "y": ["a", "b"]})
    write_parquet(tmp_path / "a.parquet", table)
    pd.testing.assert_frame_equal(read_parquet(tmp_path / "a.parquet"), table)
    assert list(read_parquet(tmp_path / "a.parquet", ["y"])) == ["y"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1, 2"])
def test_json_that_is_damaged_is_named(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(EquisetError, match=r"a\.json cannot be read: .*Delete it and run the same command again"):
        read_json(tmp_path / "a.json")


def test_a_table_that_is_cut_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    write_parquet(path, pd.DataFrame({"x": np.arange(1000)}))
    whole = path.read_bytes()
    for length in (0, 3, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(EquisetError, match=r"a\.parquet cannot be read: .*Delete it") as caught:
            read_parquet(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [read_json, read_parquet])
def test_a_file_that_is_missing_is_named(tmp_path, read):
    with pytest.raises(MissingFileError, match=r"absent is not there\. Run snakemake again") as caught:
        read(tmp_path / "absent")
    assert caught.value.path == tmp_path / "absent"


def test_nothing_half_written_is_ever_seen(tmp_path):
    (tmp_path / "a").write_text("before")

    def write():
        with atomic_path(tmp_path / "a") as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert (tmp_path / "a").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (EquisetError("say this"), "say this"),
        (FileNotFoundError(2, "No such file", "x/y"), "x/y: No such file"),
        (OSError("no number"), "a file: no number"),
        (ValueError("a bug"), "this is a bug in equiset"),
    ],
)
def test_an_error_is_one_line_unless_it_is_a_bug(caplog, error, said):
    with pytest.raises(SystemExit) as caught, one_line_errors():
        raise error
    assert caught.value.code == 1
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == said
    assert bool(record.exc_info) == isinstance(error, ValueError)


def test_ctrl_c_is_one_line(caplog):
    with pytest.raises(SystemExit) as caught, one_line_errors():
        raise KeyboardInterrupt
    assert caught.value.code == 130
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage().startswith("interrupted")
    assert not record.exc_info


def test_a_log_file_gets_all_that_is_said_and_is_added_to(tmp_path):
    program = """
import os, subprocess, sys
from equiset.errors import EquisetError, one_line_errors
with one_line_errors(sys.argv[1]):
    print("printed", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-c", "import sys; print('by another', file=sys.stderr)"])
    if len(sys.argv) > 2:
        raise EquisetError(sys.argv[2])
"""
    log = tmp_path / "job.log"
    log.write_text("before\n")
    for more, code in (([], 0), (["the reason"], 1)):
        command = [sys.executable, "-c", program, str(log), *more]
        done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(SOURCES)})
        assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
    lines = log.read_text().splitlines()
    assert lines[:3] == ["before", "printed", "by another"]
    assert " INFO started in " in lines[3]
    assert lines[3].endswith(" s of processor time")
    assert lines[4:6] == ["printed", "by another"]
    assert lines[6].endswith(" ERROR the reason")
    assert len(lines) == 7


def test_json_is_canonical_for_people_and_machines(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1, "a": 2})
    assert (tmp_path / "a.json").read_text() == json.dumps({"a": 2, "b": 1}, indent=2) + "\n"
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "b.json", {"a": float("nan")})
    assert not (tmp_path / "b.json").exists()
