"""A run from its spec to its predictions: what it writes, what it goes on from, and what it refuses."""

import logging
import shutil
import signal

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from equiset.config.specs import run_spec, sets_spec
from equiset.errors import EquisetError, MissingFileError, one_line_errors
from equiset.experiments.jobs import analyse_runs, draw_sets, measure
from equiset.files import digest, read_json, read_parquet, write_json
from equiset.results.publish import publish
from equiset.training import run as runs
from equiset.training.loop import load_weights, save_weights
from equiset.training.run import evaluate_run, train_run, verify_run

NAME = "IV-N3"


@pytest.fixture(scope="module")
def places(tasks, tmp_path_factory):
    """The prepared digits and some sets of them."""
    sets = tmp_path_factory.mktemp("drawn") / "sets"
    spec = sets_spec(tasks.config, "mnist_sums", "N3", 0)
    draw_sets(spec | {"settings": spec["settings"] | {"train": 6, "validation": 4}}, tasks.store("mnist"), sets)
    return tasks.store("mnist"), sets


@pytest.fixture(autouse=True)
def committed(monkeypatch):
    threads = torch.get_num_threads()
    monkeypatch.setattr(runs.provenance, "git_commit", lambda: "0123456789abcdef")
    yield
    torch.set_num_threads(threads)


def spec_of(tasks, epochs):
    spec = run_spec(tasks.config, "mnist_sums", NAME, 0) | {"device": "cpu"}
    spec["settings"]["training"] |= {"epochs": epochs, "batch_size": 2}
    return spec


def make(tasks, places, project, epochs, **more):
    """Train and evaluate a run as the workflow does, in the folder of an experiment."""
    run = project / "runs" / NAME / "seed0"
    train_run(spec_of(tasks, epochs), *places, project / "checkpoints", run, **more)
    evaluate_run(run, *places, run / "predictions.parquet")
    return run


def same_bits(one, other):
    first, second = (load_file(run / "weights.safetensors") for run in (one, other))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    for name in ("metrics", "predictions"):
        tables = (read_parquet(run / f"{name}.parquet") for run in (one, other))
        pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_a_published_run_goes_on_where_there_is_no_checkpoint(tasks, places, tmp_path, caplog):
    first = make(tasks, places, tmp_path / "here", 2)
    publish(tmp_path / "here", tmp_path / "analysed", tmp_path / "here" / "checkpoints", tmp_path / "published")
    published = tmp_path / "published" / "runs" / NAME / "seed0"
    assert (published / "checkpoint.pt").is_file()
    whole = make(tasks, places, tmp_path / "at once", 4)
    told = []

    def watch(about):
        told.append(about["checkpoint"])
        return lambda progress: told.append(progress.epochs)

    longer = make(tasks, places, tmp_path / "there", 4, published=published, watch=watch)
    assert told == [read_json(first / "run.json")["checkpoint"], 2, 3, 4], "two epochs are not trained again"
    same_bits(longer, whole)
    assert list(read_parquet(longer / "metrics.parquet")["epoch"]) == [1, 2, 3, 4]
    assert "trained by other code" not in caplog.text


def test_ctrl_c_is_one_line_and_keeps_the_checkpoint(tasks, places, tmp_path, caplog):
    def watch(about):
        return lambda progress: signal.raise_signal(signal.SIGINT) if progress.epochs == 2 else None

    with pytest.raises(SystemExit), one_line_errors():
        make(tasks, places, tmp_path / "here", 3, watch=watch)
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.getMessage().startswith("interrupted")
    assert not line.exc_info
    assert len(list((tmp_path / "here" / "checkpoints").glob("*.pt"))) == 1
    assert started_at(tasks, places, tmp_path / "here", None) == 2
    whole = make(tasks, places, tmp_path / "at once", 3)
    same_bits(make(tasks, places, tmp_path / "here", 3), whole)


def started_at(tasks, places, project, published, epochs=3):
    """Return after how many epochs a training began, which was offered a published run."""
    told = []
    run = project / "runs" / NAME / "seed0"
    watch = lambda about: lambda progress: told.append(progress.epochs)  # noqa: E731
    train_run(spec_of(tasks, epochs), *places, project / "checkpoints", run, watch=watch, published=published)
    return told[0]


def test_which_published_runs_are_taken(tasks, places, tmp_path, caplog):
    first = make(tasks, places, tmp_path / "here", 1)
    publish(tmp_path / "here", tmp_path / "analysed", tmp_path / "here" / "checkpoints", tmp_path / "published")
    published = tmp_path / "published" / "runs" / NAME / "seed0"
    info = read_json(first / "run.json")

    def begun(name, published=published, **changes):
        if changes:
            shutil.copytree(published, tmp_path / "changed" / name)
            published = tmp_path / "changed" / name
            write_json(published / "run.json", info | changes)
        return started_at(tasks, places, tmp_path / name, published)

    assert begun("absent", tmp_path / "nowhere") == 0
    assert begun("other settings or data", checkpoint_without_code="0" * 32) == 0
    assert "trained by other code" not in caplog.text
    assert begun("other code", checkpoint="0" * 32) == 1
    assert "was trained by other code, of commit 0123456789abcdef, and goes on with this one" in caplog.text
    # What was trained here comes first.
    make(tasks, places, tmp_path / "newer", 2)
    assert started_at(tasks, places, tmp_path / "newer", published) == 2
    # A damaged one is said and not used.
    with (published / "checkpoint.pt").open("r+b") as file:
        file.seek(100)
        file.write(b"damage")
    assert begun("damaged") == 0
    assert "is damaged: its content does not match its digest" in caplog.text


def test_a_run_says_what_it_was_made_of(tasks, places, tmp_path):
    run = make(tasks, places, tmp_path, 2)
    info = read_json(run / "run.json")
    assert info["spec"] == spec_of(tasks, 2)
    assert info["sets"] == read_json(places[1] / "sets.json")
    assert info["weights_sha256"] == digest(run / "weights.safetensors")
    assert info["parameters"] == sum(each.numel() for each in load_file(run / "weights.safetensors").values())
    assert len(info["epoch_seconds"]) == 2
    assert info["threads"] == 1
    assert info["machine"]["processor"]
    assert {path.name for path in run.iterdir()} == {
        *("run.json", "metrics.parquet", "predictions.parquet", "weights.safetensors")
    }
    assert (tmp_path / "checkpoints" / f"{info['checkpoint']}.pt").is_file()


def test_a_published_network_is_verified_on_its_own_sets_alone(tasks, places, tmp_path, caplog):
    run = make(tasks, places, tmp_path, 1)
    with caplog.at_level("INFO"):
        verify_run(run, *places, tmp_path / "verified.parquet")
    assert "all 10 predictions are as published, numbers to within 0" in caplog.text
    table = read_parquet(run / "predictions.parquet")
    table.assign(probability=table["probability"] - np.float32(0.01)).to_parquet(run / "predictions.parquet")
    with pytest.raises(EquisetError, match=r"predictions differ by up to 0\.01 "):
        verify_run(run, *places, tmp_path / "verified.parquet")
    other = shutil.copytree(places[1], tmp_path / "sets")
    write_json(other / "sets.json", read_json(other / "sets.json") | {"digest": "0" * 64})
    with pytest.raises(EquisetError, match="are not the sets of"):
        verify_run(run, places[0], other, tmp_path / "verified.parquet")


def test_missing_and_damaged_files_of_a_run_are_named(tasks, places, tmp_path):
    run = make(tasks, places, tmp_path, 1)
    whole = (run / "weights.safetensors").read_bytes()
    (run / "weights.safetensors").write_bytes(whole[:-4] + b"\0\0\0\1")
    with pytest.raises(EquisetError, match=r"weights\.safetensors is damaged"):
        evaluate_run(run, *places, tmp_path / "again.parquet")
    (run / "weights.safetensors").unlink()
    with pytest.raises(EquisetError, match=r"it has no weights\.safetensors"):
        evaluate_run(run, *places, tmp_path / "again.parquet")
    (run / "run.json").write_text("{")
    with pytest.raises(EquisetError, match=r"run\.json cannot be read: .*Delete it and run the same command again"):
        evaluate_run(run, *places, tmp_path / "again.parquet")
    with pytest.raises(MissingFileError, match=r"sets\.json is not there"):
        train_run(spec_of(tasks, 1), places[0], tmp_path / "nowhere", tmp_path / "checkpoints", tmp_path / "other")
    assert not (tmp_path / "again.parquet").exists()
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"experiment": "sums"}, "there is no experiment 'sums'; there are: mnist_sums"),
        ({"settings": {"model": "IV"}}, r"config key 'spec\.settings\.sets' is missing"),
        ({"device": "tpu"}, r"config key 'spec\.device'"),
        ({"x": 1}, r"config key 'spec\.x' is unknown"),
    ],
)
def test_a_spec_that_is_none_is_refused_before_anything_is_written(tasks, places, tmp_path, change, words):
    with pytest.raises(EquisetError, match=words):
        train_run(spec_of(tasks, 1) | change, *places, tmp_path / "checkpoints", tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_weights_are_those_that_were_saved_and_fit_their_network_alone(tmp_path):
    saved, loaded, path = nn.Linear(8, 8), nn.Linear(8, 8), tmp_path / "weights.safetensors"
    save_weights(saved, path)
    load_weights(loaded, path, digest(path))
    assert torch.equal(saved.weight, loaded.weight)
    with pytest.raises(EquisetError, match="does not hold the weights of this network"):
        load_weights(nn.Linear(4, 8), path)


def test_no_cut_and_no_flipped_bit_of_weights_passes(tmp_path):
    path, rng = tmp_path / "weights.safetensors", np.random.default_rng(1)
    save_weights(nn.Linear(8, 8), path)
    whole, known = path.read_bytes(), digest(path)
    damaged = [whole[:cut] for cut in rng.integers(len(whole), size=20)]
    for bit in rng.integers(8 * len(whole), size=100):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << (bit % 8)
        damaged.append(bytes(flipped))
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(EquisetError, match=r"weights\.safetensors is damaged"):
            load_weights(nn.Linear(8, 8), path, known)


def test_runs_of_another_experiment_are_not_measured(tasks, places, tmp_path):
    run = make(tasks, places, tmp_path, 1)
    measure("mnist_sums", [run], [], tmp_path / "measures.parquet")
    with pytest.raises(EquisetError, match="is a run of mnist_sums, not of redshift"):
        measure("redshift", [run], [], tmp_path / "other.parquet")
    with pytest.raises(EquisetError, match="is a run of mnist_sums, not of point_clouds"):
        analyse_runs("point_clouds", "robustness", [run], places[0], {}, tmp_path / "other.parquet", threads=1)
    assert not (tmp_path / "other.parquet").exists()


def test_an_analysis_that_there_is_not_is_named(tmp_path):
    with pytest.raises(EquisetError, match=r"no analysis of point_clouds 'colour'; there are: robustness"):
        analyse_runs("point_clouds", "colour", [], tmp_path, {}, tmp_path / "other.parquet", threads=1)
