"""What goes wrong is said in one clear message, with exit code 1, and leaves no half file."""

import gzip
import shutil

import pytest

from equiset.data import fetch_dataset

MANIFEST = "results/smoke/data/mnist/manifest.json"
STORE = "results/smoke/data/mnist/store/store.json"


def test_a_typo_in_the_config_is_named_before_anything_runs(project):
    project.edit("experiments", "mnist_sums", "defaults", "droput", value=0.1)
    done = project.snakemake()
    assert done.returncode == 1
    assert "variants.I-N3.droput' is unknown; did you mean" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project.folder / "results").exists()


def test_unreachable_mirrors_are_listed_with_the_way_out(project):
    project.edit("datasets", "mnist", "mirrors", value=["http://127.0.0.1:9/mnist/", "http://localhost.invalid/"])
    project.edit("scales", "smoke", "datasets", "mnist", value={"source": "download", "attempts": 1, "timeout_s": 2})
    done = project.snakemake(MANIFEST)
    assert done.returncode == 1
    assert "http://127.0.0.1:9/mnist/" in done.stderr
    assert "http://localhost.invalid/" in done.stderr
    assert "snakemake --cores all --config 'datasets={mnist: {source: stand-in}}'" in done.stderr
    assert not (project.folder / MANIFEST).exists()


def test_a_password_in_the_config_is_refused_before_anything_runs(project):
    project.edit("tracking", "uri", value="https://me:secret@tracking.example.org")
    done = project.snakemake()
    assert done.returncode == 1
    assert "config key 'tracking.uri': leave user, password and options out" in done.stderr
    assert "secret" not in done.stdout + done.stderr
    assert not (project.folder / "results").exists()


def test_a_password_in_the_environments_address_of_a_server_is_refused_before_anything_runs(project):
    done = project.snakemake(MLFLOW_TRACKING_URI="https://me:secret@tracking.example.org")
    assert done.returncode == 1
    assert "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead" in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stdout + done.stderr
    assert not (project.folder / "results").exists()


@pytest.fixture(scope="module")
def mnist_files(tmp_path_factory):
    """Good files in MNIST's layout."""
    folder = tmp_path_factory.mktemp("mnist")
    settings = {"source": "stand-in", "stand_in": {"train": 60, "test": 30}}
    fetch_dataset("mnist", settings, folder, folder / "manifest.json")
    return next(folder.rglob("train-images-idx3-ubyte.gz")).parent


def test_a_damaged_file_is_named_and_nothing_is_left(project, mnist_files, tmp_path):
    """Other kinds of damage: tests/unit/test_idx.py and test_mnist_data.py."""
    file = "train-images-idx3-ubyte.gz"
    folder = tmp_path / "mine"
    folder.mkdir()
    for path in mnist_files.glob("*.gz"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / file).write_bytes(gzip.compress(gzip.decompress((folder / file).read_bytes())[:-100]))
    project.edit("scales", "smoke", "datasets", "mnist", value={"source": "folder", "folder": str(folder)})
    done = project.snakemake(STORE)
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if " ERROR " in line]
    assert len(said) == 1
    assert file in said[0]
    assert "bytes" in said[0]
    assert "Traceback" not in done.stderr
    assert not list((project.folder / STORE).parent.glob("*"))
    assert not list((project.folder / "results").rglob("*.partial"))


def test_own_files_that_change_are_fetched_again_and_a_touch_is_not(project, mnist_files, tmp_path):
    folder = tmp_path / "mine"
    shutil.copytree(mnist_files, folder)
    project.edit("scales", "smoke", "datasets", "mnist", value={"source": "folder", "folder": str(folder)})
    done = project.snakemake(STORE)
    assert done.returncode == 0, done.stderr
    labels = folder / "t10k-labels-idx1-ubyte.gz"
    labels.touch()
    assert project.planned(STORE) == {}
    content = bytearray(gzip.decompress(labels.read_bytes()))
    content[-1] = (content[-1] + 1) % 10
    labels.write_bytes(gzip.compress(content))
    assert project.planned(STORE) == {"fetch": 1, "prepare": 1}
