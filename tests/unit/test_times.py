"""Where the time goes, from benchmark files and logs that a workflow might have left."""

import os
import sys
from pathlib import Path

import pytest

from equiset.errors import EquisetError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from demo_times import draw_time_by_rule, main, read_times, time_by_rule

NOON = 1_800_000_000


@pytest.fixture
def left(tmp_path: Path):
    """Return a function that leaves the files of one job, which ran from `begin` for `seconds`."""

    def leave(job: str, begin: float, seconds: float, started: float | None = 1.0) -> None:
        benchmark, log = tmp_path / "benchmarks" / f"{job}.tsv", tmp_path / "logs" / f"{job}.log"
        benchmark.parent.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        benchmark.write_text(f"s\th:m:s\tmax_rss\tcpu_time\n{seconds}\t0:00:01\t{100 + begin}\t1.0\n")
        os.utime(benchmark, (NOON + begin + seconds,) * 2)
        said = "" if started is None else f"INFO started in {started:.2f} s, done after 9.00 s of processor time\n"
        log.write_text("12:00:00 INFO something else\n" + said)

    leave.folder = tmp_path
    return leave


def read(left):
    return read_times(left.folder / "benchmarks", left.folder / "logs")


def test_jobs_are_added_up_by_rule(left):
    left("train/x/a/seed0", 0, 60)
    left("train/x/b/seed0", 0, 40)
    left("evaluate/x/b/seed0", 40, 10)
    left("judge_claims", 60, 5)
    numbers = time_by_rule(read(left)).numbers.set_index("rule")
    assert list(numbers.index) == ["train", "evaluate", "judge_claims"]
    assert numbers.loc["train", ["jobs", "seconds", "start_up_seconds", "longest_job_seconds"]].tolist() == [
        2,
        100,
        2,
        60,
    ]
    assert numbers["share"].sum() == pytest.approx(1)


def test_wall_time_leaves_out_when_nothing_ran(left):
    left("train/x/a/seed0", 0, 60)
    left("train/x/b/seed0", 0, 50)
    left("evaluate/x/a/seed0", 70, 10)  # Snakemake thinks for ten seconds
    left("plot/x/figure", 10_000, 20)  # hours later
    times = read(left)
    assert times.cores == 2
    assert times.wall == pytest.approx(100, abs=0.1)
    assert times.idle == pytest.approx(10, abs=0.1)
    assert times.busy_while_training == pytest.approx((50 * 2 + 10) / 120, abs=0.01)


def test_bookkeeping_is_start_up_tracking_and_snakemake(left):
    left("train/x/a/seed0", 0, 60, started=4)
    left("train/x/b/seed0", 0, 60, started=4)
    left("track/x", 64, 6, started=2)  # all of a tracking job is bookkeeping
    assert read(left).bookkeeping == pytest.approx(4 + (8 + 6) / 2, abs=0.1)


def test_without_log_lines_the_share_is_unknown(left):
    left("train/x/a/seed0", 0, 60, started=None)
    table = time_by_rule(read(left))
    assert "an unknown part" in table.notes[0]
    assert "—" in table.text.to_string()


def test_table_and_figure_are_written(left):
    left("train/x/a/seed0", 0, 60)
    left("track/x", 60, 3)
    outputs = [left.folder / f"time/time_by_rule.{kind}" for kind in ("csv", "md", "tex", "png")]
    main([str(left.folder)])
    assert all(path.stat().st_size for path in outputs)
    assert draw_time_by_rule(read(left)).canvas.axes


def test_no_benchmark_files_is_said(tmp_path):
    with pytest.raises(EquisetError, match="no benchmark files"):
        read_times(tmp_path, tmp_path)


@pytest.mark.parametrize("content", ["", "s\n", "s\tmax_rss\n", "nonsense\n1\n", "s\tmax_rss\nx\ty\n"])
def test_a_damaged_benchmark_file_is_left_out(tmp_path, content, caplog):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "whole.tsv").write_text("s\tmax_rss\n1.5\t-\n")
    (tmp_path / "train" / "broken.tsv").write_text(content)
    assert read_times(tmp_path, tmp_path).jobs["job"].tolist() == ["whole"]
    assert "broken.tsv is damaged" in caplog.text
