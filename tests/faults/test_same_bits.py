"""The number of cores that prepare data changes no byte. CelebA's images: tests/unit/test_celeba_data.py."""

import pytest

from equiset.config.resolve import resolve
from equiset.data import dataset_module
from tests.faults.comparison import contents
from tests.faults.test_full_disk import RAW


@pytest.mark.parametrize("name", ["mnist", "modelnet40", "redmapper"])
def test_any_number_of_cores_gives_the_same_store(name, tmp_path, monkeypatch):
    monkeypatch.setattr("equiset.data.modelnet40.meshes._FEW", 0)  # or so few meshes would be read by one process
    module = dataset_module(name)
    settings = resolve(RAW, "smoke").dataset(name)
    manifest = module.fetch(settings, tmp_path / "cache")
    for threads in (1, 3):
        module.prepare(manifest, tmp_path / str(threads), settings, threads)
    assert contents(tmp_path / "1") == contents(tmp_path / "3")


def test_another_folder_gives_the_same_files(tmp_path):
    """Manifests name their files by path; all else is equal."""
    settings = resolve(RAW, "smoke").dataset("redmapper")
    module = dataset_module("redmapper")
    for folder in ("here", "some where/else"):
        module.prepare(module.fetch(settings, tmp_path / folder), tmp_path / folder / "store", settings, 1)
    one, other = (contents(tmp_path / folder) for folder in ("here", "some where/else"))
    assert one | other == one | {"own-files.json": other["own-files.json"]}  # which has times
    assert len(one) > 5
