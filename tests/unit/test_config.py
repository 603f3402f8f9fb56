"""The config: what it accepts, what it refuses, and what it says then."""

import copy
import shutil
from pathlib import Path

import pytest
import yaml

from equiset.config.resolve import REFERENCE, SCALES, merge, project_config, read_config, resolve, user_changes
from equiset.config.specs import run_settings, run_spec, sets_settings, sets_spec
from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS

ROOT = Path(__file__).parents[2]
BASE = ROOT / "config.yaml"
RAW = read_config(BASE)


def variant(**change):
    return {"experiments": {"mnist_sums": {"variants": {"IV-N3": change}}}}


@pytest.mark.parametrize("scale", SCALES)
def test_the_shipped_config_is_valid_at_every_scale(scale):
    config = resolve(RAW, scale)
    assert config.scale == scale
    for name in EXPERIMENTS:
        assert config.experiment(name).running


@pytest.mark.parametrize("name", ["reference", "tuning"])
def test_the_shipped_changes_of_the_config_are_valid(name):
    change = yaml.safe_load((ROOT / "workflow" / f"{name}.yaml").read_text())
    config = resolve(merge(RAW, change), overrides=change)
    assert config.scale == "paper"
    if name == "tuning":  # never on what is reported
        sums = config.experiment("mnist_sums")
        assert all(sums.sets[sums.variants[each].sets].holdout == 10_000 for each in sums.running)
        reference = yaml.safe_load((ROOT / "workflow" / "reference.yaml").read_text())
        assert not set(sums.running) & set(reference["experiments"]["mnist_sums"]["run"])


def test_a_cloud_has_more_particles_than_neighbours():
    graphs = ("graph-1000", "graph-1000-normalised")

    def clouds(neighbours, **more):
        change = {
            "sets": {"P1000": {"particles": 8}},
            "variants": {name: {"neighbours": neighbours} for name in graphs},
        }
        change |= more
        return merge(RAW, {"experiments": {"point_clouds": change}})

    with pytest.raises(EquisetError, match=r"point_clouds.*variants\.graph-1000\.neighbours: a particle of 8 has 7"):
        resolve(clouds(8), "paper")
    resolve(clouds(7), "paper")
    resolve(clouds(8, run=["set-1000"]), "paper")


def test_readings_that_are_run_beside_the_strict_one_change_nothing_else():
    sums = resolve(RAW, "paper").experiment("mnist_sums")
    strict, literal = sums.variants["IV-N6"], sums.variants["IV-N6-all"]
    # The role is the place in tables and figures, and no part of a run.
    assert literal == strict.model_copy(update={"sets": "N6-all", "role": literal.role})
    assert sums.sets["N6-all"] == sums.sets["N6"].model_copy(update={"draw_from": "all"})


def test_paper_scale_has_the_papers_values():
    experiment = resolve(RAW, "paper").experiment("mnist_sums")
    assert {name: (sets.members, sets.train, sets.validation) for name, sets in experiment.sets.items()} == {
        "N3": (3, 10_000, 10_000),
        "N6": (6, 10_000, 10_000),
        "N6-all": (6, 10_000, 10_000),
    }
    assert not any(sets.holdout for sets in experiment.sets.values())
    settings = experiment.variants["IV-N6"]
    assert settings.channels == [16, 32, 64, 128]
    assert settings.dropout == 0.2
    assert settings.training.optimizer.learning_rate == 0.0003
    assert settings.training.optimizer.betas == (0.9, 0.999)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scle": "demo"}, "config key 'scle' is unknown; did you mean 'scale'?"),
        ({"scale": "huge"}, "config key 'scale': 'huge' is not one of smoke, demo, paper"),
        ({"device": "tpu"}, "config key 'device': input should be 'auto', 'cpu' or 'cuda', got 'tpu'"),
        ({"datasets": 3}, "config key 'datasets'"),
        ({"datasets": {"mnist": {"source": "folder"}}}, "datasets.mnist.folder"),
        (
            {"datasets": {"mnist": {"sorce": "stand-in"}}},
            "'datasets.mnist.sorce' is unknown; did you mean 'datasets.mnist.source'?",
        ),
        ({"seeds": [1]}, "'seeds' is unknown; did you mean 'experiments.mnist_sums.seeds'?"),
        ({"scales": None}, "config key 'scales': expected the keys smoke, demo, paper, got None"),
        ({"scales": {"demo": None}}, "config key 'scales.demo': expected keys with values, got None"),
        (variant(role={"changes": "IV-N3"}), "IV-N3 changes IV-N3, in a circle"),
        ({"experiments": {"mnist_sums": {"run": ["V"]}}}, "no variant is named 'V'"),
        ({"experiments": {"mnist_sums": {"seeds": []}}}, "experiments.mnist_sums.seeds"),
        ({"experiments": {"mnist_sums": {"seeds": [1, 1]}}}, "seeds must be different"),
        ({"experiments": {"mnist_sums": {"seeds_of": {"IV-N3": [2, 2]}}}}, "seeds must be different"),
        ({"experiments": {"mnist_sums": {"seeds_of": {"V": [2]}}}}, "seeds_of: no variant is named 'V'"),
        ({"experiments": {"mnist_sums": {"variants": 3}}}, "experiments.mnist_sums.variants"),
        ({"experiments": {"mnist_sums": {"variants": {"a/b": {"model": "I", "sets": "N3"}}}}}, "variants.a/b"),
        (variant(dropout=1.5), "experiments.mnist_sums.variants.IV-N3.dropout'"),
        (variant(sets="N9"), "no sets are named 'N9'"),
        (
            variant(training={"epcohs": 3}),
            "training.epcohs' is unknown; did you mean 'experiments.mnist_sums.variants.IV-N3.training.epochs'?",
        ),
        (variant(training={"epochs": 0}), "variants.IV-N3.training.epochs': input should be greater than 0, got 0"),
        (variant(training={"optimizer": {"learning_rate": float("nan")}}), "learning_rate"),
        ({"experiments": 5}, "config key 'experiments'"),
        ({"experiments": [1]}, "config key 'experiments'"),
        ({"experiments": {"mnist_sums": {"defaults": 5}}}, "config key 'experiments.mnist_sums.defaults'"),
        ({"experiments": {"mnist_sums": {"variants": {"IV-N3": "wide"}}}}, "variants.IV-N3"),
        ({"experiments": {"mnist_sums": {"run": None}}}, "config key 'experiments.mnist_sums.run'"),
        (variant(channels=[0, -8]), "variants.IV-N3.channels.0'"),
        (variant(training={"epochs": 2.0}), "epochs': input should be a valid integer, got 2.0"),
        (variant(training={"epochs": True}), "epochs': input should be a valid integer, got True"),
        (variant(training={"epochs": "1e24"}), "training.epochs'"),
        (variant(training={"epochs": 10**9}), "training.epochs'"),
        (variant(training={"lower_after": [-1]}), "training.lower_after.0'"),
        (variant(training={"optimizer": {"betas": [5, -1]}}), "training.optimizer.betas.0'"),
    ],
)
def test_a_wrong_key_or_value_is_named(change, message):
    with pytest.raises(EquisetError) as caught:
        resolve(RAW, None, change)
    assert message in str(caught.value)


def test_the_data_folder_may_be_in_the_home_folder():
    assert resolve(RAW, None, {"data_folder": "~/data"}).data_folder == str(Path.home() / "data")


def test_scales_hold_keys_with_values():
    with pytest.raises(EquisetError, match=r"config key 'scales\.smoke': expected keys with values, got \[1\]"):
        resolve({**RAW, "scales": {"smoke": [1]}}, "smoke")


def test_empty_defaults_change_nothing():
    raw = copy.deepcopy(RAW)
    raw["experiments"]["redshift"]["defaults"] = None
    with pytest.raises(EquisetError, match="is missing"):
        resolve(raw, "paper")


def test_a_power_of_ten_is_a_number_with_or_without_a_point():
    config = resolve(RAW, "paper", variant(training={"optimizer": {"eps": "1e-3"}}))
    assert config.experiment("mnist_sums").variants["IV-N3"].training.optimizer.eps == 1e-3


def test_a_full_copy_of_the_config_leaves_the_scale_as_it_is():
    said = copy.deepcopy(RAW)
    assert user_changes(RAW, said) == {}
    assert user_changes(RAW, said | {"scale": "smoke"}) == {"scale": "smoke"}


def test_what_a_users_file_changes_wins_over_the_scale():
    said = copy.deepcopy(RAW)
    said["experiments"]["mnist_sums"]["defaults"]["hidden"] = 77
    said = merge(said, {"experiments": {"mnist_sums": {"seeds": [4], "defaults": {"pixels": "standardised"}}}})
    config = project_config(ROOT, said, "smoke")
    experiment = config.experiment("mnist_sums")
    assert experiment.seeds == [4]
    variant = experiment.variants["IV-N3"]
    assert (variant.hidden, variant.pixels, variant.channels) == (77, "standardised", [2, 4, 4, 8])


def test_what_a_user_says_wins_even_with_the_value_of_the_base():
    config = project_config(ROOT, variant(channels=[16, 32, 64, 128]), "smoke")
    assert config.experiment("mnist_sums").variants["IV-N3"].channels == [16, 32, 64, 128]


def test_numbers_within_the_command_line_are_numbers():
    """Snakemake reads `--config 'experiments={...}'` with a loader that knows texts alone."""
    said = "{mnist_sums: {seeds: [3, 4], run: [I-N3], defaults: {dropout: 1e-1, training: {gradient_clip: null}}}}"
    changes = user_changes(RAW, {"experiments": yaml.load(said, yaml.BaseLoader)})
    found = resolve(RAW, "smoke", changes).experiment("mnist_sums")
    assert (found.seeds, found.running) == ([3, 4], ["I-N3"])
    more = found.model_copy(update={"seeds_of": {"IV-N3": [0, 1, 2]}})
    assert (more.seeds_for("IV-N3"), more.seeds_for("I-N3")) == ([0, 1, 2], [3, 4])
    assert (found.variants["I-N3"].dropout, found.variants["I-N3"].training.gradient_clip) == (0.1, None)
    for text in ("a: b", "[", "2024-01-01", "x", "./123", ""):
        assert user_changes(RAW, {"data_folder": text})["data_folder"] == (text or None)


def test_a_key_that_stands_twice_is_named(tmp_path):
    twice = tmp_path / "twice.yaml"
    twice.write_text("scale: demo\ndatasets:\n  mnist: {source: stand-in}\n  mnist: {source: download}\n")
    with pytest.raises(EquisetError, match=r"twice\.yaml: key 'mnist' stands twice, in lines 3 and 4"):
        read_config(twice)


def test_a_key_that_stands_twice_in_one_line_is_named(tmp_path):
    twice = tmp_path / "twice.yaml"
    twice.write_text("training: {epochs: 5, epochs: 7}\n")
    with pytest.raises(EquisetError, match=r"twice\.yaml: key 'epochs' stands twice, in lines 1 and 1"):
        read_config(twice)


def test_a_missing_key_is_named():
    raw = copy.deepcopy(RAW)
    del raw["experiments"]["mnist_sums"]["defaults"]["hidden"]
    with pytest.raises(EquisetError, match=r"variants\.I-N3\.hidden' is missing(?s:.*)and 20 more"):
        resolve(raw, "paper")


def test_the_command_line_wins_over_the_scale_and_the_scale_over_the_base():
    assert resolve(RAW, "smoke").dataset("mnist").source == "stand-in"
    assert resolve(RAW, "paper").dataset("mnist").source == "download"
    assert resolve(RAW, "smoke", {"datasets": {"mnist": {"source": "download"}}}).dataset("mnist").source == "download"
    assert resolve(RAW, None, {"scale": "smoke"}).scale == "smoke"


def test_a_new_variant_is_an_edit_of_the_config_alone():
    change = {"experiments": {"mnist_sums": {"variants": {"IV-N3-wide": {"model": "IV", "sets": "N3", "hidden": 256}}}}}
    config = resolve(RAW, "paper", change)
    assert "IV-N3-wide" in config.experiment("mnist_sums").running
    spec = run_spec(config, "mnist_sums", "IV-N3-wide", 1)
    assert spec["settings"]["hidden"] == 256
    assert spec["settings"]["channels"] == [16, 32, 64, 128]


def test_a_variants_setting_changes_its_own_spec_alone():
    before, after = resolve(RAW, "paper"), resolve(RAW, "paper", variant(dropout=0.3))
    for name in before.experiment("mnist_sums").variants:
        same = run_spec(before, "mnist_sums", name, 0) == run_spec(after, "mnist_sums", name, 0)
        assert same == (name != "IV-N3")
    assert sets_spec(before, "mnist_sums", "N3", 0) == sets_spec(after, "mnist_sums", "N3", 0)


def test_merge_replaces_lists_and_leaves_its_arguments_alone():
    base = {"a": {"b": [1, 2], "c": 3}}
    assert merge(base, {"a": {"b": [4]}}) == {"a": {"b": [4], "c": 3}}
    assert base == {"a": {"b": [1, 2], "c": 3}}


@pytest.mark.parametrize(
    "uri",
    [
        "https://me:secret@mlflow.example.org",
        "https://me@mlflow.example.org/path",
        "postgresql://me:secret@database.example.org/mlflow",
        "postgresql://database.example.org/mlflow?password=secret",
        "https://mlflow.example.org?token=secret",
    ],
)
def test_an_address_with_a_password_is_refused_and_not_repeated(uri):
    with pytest.raises(EquisetError, match=r"config key 'tracking\.uri': .*MLFLOW_TRACKING_PASSWORD") as caught:
        resolve(RAW, None, {"tracking": {"uri": uri}})
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "uri", [None, "https://mlflow.example.org:5000/path", "sqlite:///results/a@b.db", "postgresql://host/mlflow"]
)
def test_an_address_without_a_password_is_taken(uri):
    assert resolve(RAW, None, {"tracking": {"uri": uri}}).tracking.uri == uri


def test_a_project_has_the_scale_that_is_asked_for_and_what_the_user_says():
    assert project_config(ROOT, {}) == resolve(RAW)
    assert project_config(ROOT, {"scale": "smoke"}) == resolve(RAW, "smoke")
    assert project_config(ROOT, {"device": "cpu"}, "paper") == resolve(RAW, "paper", {"device": "cpu"})


def test_the_scale_of_published_runs_has_the_published_variants(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (published := tmp_path / "results" / REFERENCE / "mnist_sums" / "runs" / "IV-N6" / "seed0").mkdir(parents=True)
    (published / "run.json").write_text("{}")
    config = project_config(ROOT, {"scale": "smoke"}, REFERENCE)
    change = read_config(ROOT / "workflow" / "reference.yaml")["experiments"]["mnist_sums"]
    sums = config.experiment("mnist_sums")
    assert (config.scale, sums.running) == ("paper", ["IV-N6"])
    assert sums.variants["IV-N6"].training.epochs == change["variants"]["IV-N6"]["training"]["epochs"]
    assert config.experiment("redshift").run == "all"
    shutil.rmtree(published)
    assert len(project_config(ROOT, {}, REFERENCE).experiment("mnist_sums").running) > 1


def test_a_job_reads_its_settings_from_its_spec():
    config = resolve(RAW, "paper")
    settings = config.experiment("mnist_sums").variants["IV-N3"]
    read = run_settings(run_spec(config, "mnist_sums", "IV-N3", 0))
    assert read == settings.model_copy(update={"role": read.role})
    assert sets_settings(sets_spec(config, "mnist_sums", "N3", 0)) == config.experiment("mnist_sums").sets["N3"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "config key 'spec.seed'"),
        ({"device": "tpu"}, "config key 'spec.device'"),
        ({"experiment": "sums"}, "no experiment 'sums'"),
        ({"other": 1}, "config key 'spec.other' is unknown"),
        ({"settings": {}}, "config key 'spec.settings.sets' is missing"),
    ],
)
def test_a_wrong_spec_is_named(change, message):
    spec = run_spec(resolve(RAW, "paper"), "mnist_sums", "IV-N3", 0)
    with pytest.raises(EquisetError) as caught:
        run_settings(spec | change)
    assert message in str(caught.value)
