"""The instrument of the benchmarks, on work whose cost is known."""

import importlib
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch  # noqa: F401  before the processes are forked, each of which would import it

pytestmark = pytest.mark.filterwarnings("ignore:.*fork")  # newer Pythons warn of forking beside threads
FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def instrument(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("instrument")
    for name in [name for name, module in sys.modules.items() if str(FOLDER) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def spin(seconds: float):
    def step() -> None:
        start = time.process_time()
        while time.process_time() - start < seconds:
            pass

    return lambda folder: step


def test_time_and_memory_are_those_of_each_form(instrument, tmp_path):
    instrument.keep_freed_memory()  # as other tests may have: what is free here must not hide what a form takes
    [np.ones(2**17) for _ in range(200)].clear()
    held = lambda mib: lambda folder: lambda: np.ones((mib, 2**17)).sum()  # noqa: E731
    benchmarks = [
        instrument.Benchmark("time", (instrument.Form("ours", spin(0.01)), instrument.Form("slow", spin(0.04))), bar=2),
        instrument.Benchmark(
            "memory", (instrument.Form("ours", held(8)), instrument.Form("large", held(64))), rounds=2
        ),
        instrument.Benchmark(
            "too slow", (instrument.Form("ours", spin(0.02)), instrument.Form("b", spin(0.01))), bar=2
        ),
    ]
    measured, failures = instrument.run_all(benchmarks)
    assert not failures
    rows = measured.set_index(["benchmark", "role"])
    assert 2.5 < rows.loc[("time", "rival"), "times_faster"] < 5
    assert rows.loc[("time", "rival"), "met"]
    assert not rows.loc[("too slow", "rival"), "met"]
    assert rows.loc[("memory", "rival"), "times_less_memory"] > 3
    instrument.write(measured, failures, tmp_path)
    assert "**no**" in (tmp_path / "bench.md").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"bench.csv", "bench.md", "bench.png"}


def test_one_measured_again_takes_its_place_in_the_table(instrument, tmp_path):
    def two(name):
        return instrument.Benchmark(name, (instrument.Form("a", spin(0.002)), instrument.Form("b", spin(0.001))), bar=2)

    def table():
        return pd.read_csv(tmp_path / "bench.csv").set_index("benchmark")

    folder = ["--output", str(tmp_path)]
    instrument.main([two("first"), two("second"), two("gone")], folder)
    before = table()
    instrument.main([two("first"), two("second")], [*folder, "--only", "first", "--rounds", "2"])
    assert list(table().index.unique()) == ["first", "second"]
    assert set(table().loc["first", "rounds"]) == {2}
    pd.testing.assert_frame_equal(table().loc[["second"]], before.loc[["second"]])
    page = (tmp_path / "bench.md").read_text()
    assert page.count("**no**") == 2
    assert "nan" not in page


def test_a_form_that_fails_is_named_and_the_others_go_on(instrument):
    def broken(folder: Path):
        raise ValueError("no such mesh")

    forms = (instrument.Form("ours", spin(0.001)), instrument.Form("b", broken))
    good = instrument.Benchmark("good", (instrument.Form("ours", spin(0.001)),), rounds=1)
    measured, failures = instrument.run_all([instrument.Benchmark("bad", forms), good])
    assert failures == ["bad: ValueError: no such mesh"]
    assert list(measured["benchmark"]) == ["good"]


def test_every_benchmark_has_a_rival_and_a_name_of_its_own(instrument, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    main = importlib.util.spec_from_file_location("all_benchmarks", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(main)
    main.loader.exec_module(module)
    benchmarks = [each for name in module.MODULES for each in importlib.import_module(name).BENCHMARKS]
    names = [each.name for each in benchmarks]
    assert len(set(names)) == len(names)
    for each in benchmarks:
        assert len(each.forms) > 1, each.name
        assert not each.forms[0].limit, each.name
        assert len({form.name for form in each.forms}) == len(each.forms), each.name


def test_tables_go_between_the_marks_of_the_page(instrument):
    publish = importlib.import_module("publish")
    page = (FOLDER.parent / publish.PAGE).read_text()
    for name in publish.TABLES:
        once = publish.with_table(page, name, "| a \\1 |")
        assert once.count("| a \\1 |") == 1
        assert publish.with_table(once, name, "| a \\1 |") == once
