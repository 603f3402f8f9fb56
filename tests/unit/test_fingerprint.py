"""What a job depends on is the code that can change its result: not everything, and no comment of it."""

import hashlib
import shutil
from pathlib import Path

import pytest
import yaml

from equiset import fingerprint as fingerprints
from equiset.config.resolve import resolve
from equiset.config.specs import fetch_spec, prepare_spec, raw_spec
from equiset.data import DATASETS, dataset_module
from equiset.experiments import EXPERIMENTS
from equiset.files import digest_json
from equiset.fingerprint import fingerprint, training_code

from ..rewriting import other_number

ROOT = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package in a folder where it can be changed, and fingerprints of what is there."""
    copied = tmp_path / "equiset"
    shutil.copytree(ROOT / "src" / "equiset", copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprints, "_ROOT", copied)
    yield copied
    forget()


def forget():
    fingerprint.cache_clear()
    fingerprints._content.cache_clear()


def codes() -> dict[str, str]:
    """Return what identifies the code of each experiment's trainings, and of all there is."""
    forget()
    return {name: training_code(name) for name in EXPERIMENTS} | {"all": fingerprint("*", "*/*", "*/*/*")}


def content(path: Path, source: str) -> str:
    path.write_text(source, encoding="utf-8")
    forget()
    return fingerprints._content(path)


def test_moved_renamed_and_empty_modules_change_nothing(package):
    before = codes()
    network = package / "experiments" / "point_clouds" / "networks.py"
    network.rename(network.with_name("architectures.py"))
    task = package / "experiments" / "point_clouds" / "task.py"
    task.write_text(task.read_text().replace("point_clouds.networks import", "point_clouds.architectures import"))
    (package / "nn" / "more.py").write_text('"""Nothing yet."""\n\nimport torch\n')
    assert codes() == before


def test_a_number_in_a_network_concerns_the_trainings_of_its_experiment_alone(package):
    before = codes()
    for experiment in EXPERIMENTS:
        network = package / "experiments" / experiment / "networks.py"
        network.write_text(other_number(network.read_text()))
        after = codes()
        assert [name for name in EXPERIMENTS if after[name] != before[name]] == [experiment]
        before = after


def test_a_number_in_the_layers_or_the_loop_concerns_all_trainings(package):
    before = codes()
    for part in ("nn/layer.py", "nn/sets.py", "training/loop.py", "training/devices.py"):
        (package / part).write_text(other_number((package / part).read_text()))
        after = codes()
        assert not [name for name in EXPERIMENTS if after[name] == before[name]]
        before = after


def test_how_runs_are_measured_and_shown_concerns_no_training(package):
    before = codes()
    for part in ("results/tables.py", "experiments/point_clouds/results.py", "experiments/point_clouds/measures.py"):
        (package / part).write_text(other_number((package / part).read_text()))
    after = codes()
    assert [name for name in after if after[name] != before[name]] == ["all"]


def test_code_is_compared_as_a_tree(tmp_path):
    def of(source):
        return content(tmp_path / "module.py", source)

    plain = of("def f(x, *, y=0.001):\n    return [x, (y, None)]\n")
    assert of("def f(\n    x,\n    *,\n    y=1e-3,  # small\n):\n\n    'Said.'\n    return [x, (y, None,)]") == plain
    assert of("from a import b\ndef f(x, *, y=0.001):\n    import c\n    return [x, (y, None)]\n") == plain
    others = ["[x, (y,), None]", "[x, y, None]", "[x, (y, 'None')]", "[x, (y, 0)]", "x, (y, None)", "..."]
    assert len({of(f"def f(x, *, y=0.001):\n    return {other}\n") for other in others} | {plain}) == len(others) + 1
    # A text that is not alone in its line is a value.
    assert of("x = 'a'") != of("x = 'b'")
    assert of("f('a')") != of("f('b')")
    assert of("'a'") == ""


def test_a_table_of_the_package_counts(package):
    before = fingerprint("data/modelnet40/*")
    with (package / "data" / "modelnet40" / "official.txt").open("a") as file:
        file.write("\n")
    forget()
    assert fingerprint("data/modelnet40/*") != before


def test_a_pattern_that_matches_nothing_is_an_error():
    with pytest.raises(ValueError, match="no file of the package matches 'nowhere"):
        fingerprint("nn/*", "nowhere/*")


def test_seeds_hang_on_digests_that_never_change():
    assert digest_json((7, 1)) == hashlib.sha256(b"[7,1]").hexdigest()
    assert digest_json({"b": None, "a": 0.1}) == hashlib.sha256(b'{"a":0.1,"b":null}').hexdigest()


TRANSFER = {
    "timeout_s": 7,
    "attempts": 9,
    "mirrors": ["https://example.org/"],
    "image_mirrors": ["https://example.org/"],
}


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("source", ["download", "folder", "stand-in"])
def test_how_files_are_downloaded_is_in_no_spec_that_is_compared(dataset, source):
    raw = yaml.safe_load((ROOT / "config.yaml").read_text())
    folder = {} if source == "download" else {"folder": "/mine"}

    def specs(**changes):
        config = resolve(raw, "paper", {"datasets": {dataset: {"source": source, **folder, **changes}}})
        return [of(config, dataset) for of in (fetch_spec, raw_spec, prepare_spec)]

    kind = dataset_module(dataset).SETTINGS
    whole, files, arrays = specs()
    for key in TRANSFER.keys() & kind.model_fields.keys():
        changed = specs(**{key: TRANSFER[key]})
        assert changed[0] != whole, "the job itself must see it"
        assert changed[1:] == [files, arrays]
    for key, value in {"folder": "/other", "stand_in": {"seed": 5}}.items():
        if key in folder or key == "stand_in":
            changed = specs(**{key: value})
            assert (changed[1] != files) == (key == source.replace("-", "_"))
            assert changed[2] == arrays
    assert set(arrays["settings"]) == kind.model_fields.keys() - TRANSFER.keys() - {"source", "folder", "stand_in"}
