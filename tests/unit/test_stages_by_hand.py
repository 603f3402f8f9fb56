"""Stages that somebody calls by hand with something wrong: one line that names it, and no traceback."""

import json
import logging
import os
import subprocess
import sys
from importlib import import_module

import pytest

from equiset.errors import DamagedError, EquisetError
from equiset.files import check_folder, digest, read_json, seal_folder, write_json
from equiset.given import data_for
from equiset.process import run_stage
from equiset.results.material import Material
from tests.unit.test_tracking import write_run

RUN = {"experiment": "mnist_sums", "variant": "x", "seed": 0, "scale": "demo", "device": "cpu", "settings": {}}
SETS = {"experiment": "mnist_sums", "sets": "x", "seed": 0, "settings": {}}
# The arguments of each stage, where `absent` is a folder or file that is not there.
WHOLE = {
    "analyse": "point_clouds robustness --runs absent --store absent --settings {} --output out",
    "evaluate": "--run absent --store absent --sets absent --output out",
    "fetch": '--spec {"dataset":"mnist","settings":{"source":"folder","folder":"absent"}} --cache c --output out',
    "judge": "--claims absent --output out",
    "judge_published": "absent --claims absent",
    "make_sets": "--spec SETS --store absent --output out",
    "measure_runs": "mnist_sums --scale demo --runs absent --output out",
    "measure_layers": '--settings {"nonsense":1} --output out',
    "prepare": '--spec {"dataset":"mnist"} --manifest absent --output out',
    "publish": "mnist_sums --claims absent --runs absent --config absent --output out",
    "readme": "absent --reference absent --claims absent",
    "report": "absent --template absent --page out --runs absent",
    "show": "mnist_sums accuracy --runs absent --store absent --measures absent --claims absent --output out",
    "track": "mnist_sums --scale demo --uri http://[",
    "train": "--spec RUN --store absent --sets absent --checkpoints c --output out",
    "verify": "--run absent --store absent --sets absent --output out",
}


def call(stage, arguments, capsys, caplog):
    """Run a stage as its program does; return what it says and how it ends."""
    main = import_module(f"equiset.stages.{stage}").main
    with pytest.raises(SystemExit) as ended:
        run_stage(lambda _: main(arguments))
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    usage = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    return errors or usage, ended.value.code


def with_(stage, **changes):
    words = WHOLE[stage].split()
    for key, value in changes.items():
        words[words.index(f"--{key}") + 1] = value if isinstance(value, str) else json.dumps(value)
    return [json.dumps({"RUN": RUN, "SETS": SETS}[word]) if word in ("RUN", "SETS") else word for word in words]


@pytest.mark.parametrize("stage", WHOLE)
def test_files_and_folders_that_are_not_there(stage, tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    said, code = call(stage, with_(stage), capsys, caplog)
    assert code == 1
    assert len(said) == 1
    assert len(said[0].splitlines()) <= 4
    if stage not in ("measure_layers", "track", "train", "make_sets"):
        assert "absent" in said[0]


@pytest.mark.parametrize(
    ("stage", "changes", "words"),
    [
        ("train", {"spec": "nonsense"}, "--spec: no JSON"),
        ("train", {"spec": "[]"}, "--spec: no JSON object"),
        ("train", {"spec": {}}, "config key 'spec.experiment' is missing"),
        ("train", {"spec": {**RUN, "experiment": "none"}}, "there is no experiment 'none'; there are: mnist_sums"),
        ("train", {"spec": {**RUN, "device": "abacus"}}, "config key 'spec.device'"),
        ("train", {"spec": {**RUN, "seed": "x"}}, "config key 'spec.seed'"),
        ("train", {"spec": {**RUN, "settings": {"droput": 1}}}, "config key 'spec.settings."),
        ("make_sets", {"spec": "{"}, "--spec: no JSON"),
        ("make_sets", {"spec": {**SETS, "experiment": "none"}}, "there is no experiment 'none'"),
        ("make_sets", {"spec": {"experiment": "mnist_sums"}}, "config key 'spec.sets' is missing"),
        ("measure_layers", {"settings": "1"}, "--settings: no JSON object"),
        ("analyse", {"settings": "x"}, "--settings: no JSON"),
        ("fetch", {"spec": "x"}, "--spec must be JSON"),
        ("prepare", {"spec": {"dataset": "none"}}, "there is no data set 'none'"),
    ],
)
def test_wrong_values_are_named(stage, changes, words, tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    said, code = call(stage, with_(stage, **changes), capsys, caplog)
    assert code in (1, 2)
    assert len(said) == 1
    assert words in said[0]


@pytest.mark.parametrize("stage", ["analyse", "show"])
def test_a_name_of_nothing_is_answered_with_the_names_there_are(stage, tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    arguments = with_(stage)
    arguments[1] = "nonsense"
    arguments[arguments.index("--runs") + 1] = str(a_run(tmp_path, arguments[0]))
    said, code = call(stage, arguments, capsys, caplog)
    assert code == 1
    assert "'nonsense'; there are: " in said[0]


def a_run(folder, experiment):
    run = write_run(folder)
    info = read_json(run / "run.json")
    write_json(run / "run.json", {**info, "spec": {**info["spec"], "experiment": experiment}})
    return run


@pytest.mark.parametrize("stage", ["show", "analyse", "publish"])
def test_a_run_of_another_experiment_is_refused(stage, tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "store" / "store.json", {"dataset": "modelnet40", "digest": "x"})
    arguments = with_(stage, runs=str(a_run(tmp_path, "redshift")))
    arguments = [str(tmp_path / "store") if arguments[i - 1] == "--store" else x for i, x in enumerate(arguments)]
    said, code = call(stage, arguments, capsys, caplog)
    assert code == 1
    assert "is a run of redshift, not of" in said[0]


@pytest.mark.parametrize("value", ["0", "-1", "x", "1e9"])
def test_numbers_of_threads(value, tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    said, code = call("evaluate", [*with_("evaluate"), "--threads", value], capsys, caplog)
    assert code == 2
    assert "--threads" in said[0]


def test_an_unknown_level_of_the_log(tmp_path):
    command = [sys.executable, "-m", "equiset.stages.judge", "--claims", "a", "--output", "c"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"EQUISET_LOG": "chatty"})
    assert done.returncode == 1
    assert done.stderr.startswith("EQUISET_LOG is CHATTY, not one of CRITICAL")


DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(os.urandom(200)),
    "another JSON": lambda path: path.write_text("{}"),
    "a list": lambda path: path.write_text("[1]"),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("stage", ["train", "evaluate", "make_sets", "analyse", "show"])
def test_damaged_stores_are_put_aside_as_a_whole(stage, damage, tmp_path, capsys, caplog, monkeypatch):
    """Only a folder that is gone is made again: a file of it is no output of its own."""
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "store"
    write_json(store / "store.json", {"dataset": "modelnet40", "digest": "x", "text": "long enough" * 20})
    (store / "pool.f32").write_bytes(bytes(64))
    seal_folder(store, "store.json")
    DAMAGES[damage](store / "store.json")
    if stage == "show":
        with pytest.raises(DamagedError) as told:
            Material([], store, {}).store  # noqa: B018
        assert told.value.path == store
        return
    run = a_run(tmp_path, "point_clouds")
    if stage != "analyse":
        monkeypatch.setattr(f"equiset.stages.{stage}.settings_of", lambda *_: None)
    spec = {"train": {"spec": {**RUN, "experiment": "point_clouds"}}, "evaluate": {"run": str(run)}}
    spec |= {"make_sets": {"spec": {**SETS, "experiment": "point_clouds"}}, "analyse": {"runs": str(run)}}
    said, code = call(stage, with_(stage, store=str(store), **spec[stage]), capsys, caplog)
    assert code == 1
    assert "store.json" in said[0]
    assert "It was renamed to store.damaged" in said[0]
    assert not store.exists()


@pytest.mark.parametrize("name", ["pool.f32", "offsets.npy"])
def test_damaged_arrays_are_found_before_a_result_reads_them(tmp_path, name):
    write_json(tmp_path / "store.json", {"dataset": "x", "digest": "x"})
    (tmp_path / name).write_bytes(bytes(64))
    seal_folder(tmp_path, "store.json")
    assert Material([], tmp_path, {}).store == tmp_path
    (tmp_path / name).write_bytes(bytes(63) + b"x")
    with pytest.raises(DamagedError, match=name):
        Material([], tmp_path, {}).store  # noqa: B018
    assert digest(tmp_path / name)


def test_a_store_of_other_data_is_refused(tmp_path):
    write_json(tmp_path / "store.json", {"dataset": "celeba", "digest": "x"})
    assert check_folder(tmp_path, "store.json")["dataset"] == "celeba"
    with pytest.raises(EquisetError, match="is made of celeba, and mnist_sums learns from mnist"):
        data_for("mnist_sums", tmp_path)
