"""A user's files are inputs in effect: what changes in them makes the data be fetched again, and nothing else does."""

import json
import os
import shutil
import time
from itertools import chain

import pytest
import yaml

from equiset.config.resolve import resolve
from equiset.config.specs import raw_spec
from equiset.data import dataset_module, manifest
from equiset.data.manifest import LISTING, content, make_manifest, paths_in
from equiset.data.redmapper import RedmapperSettings
from tests.workflow.conftest import ROOT

RAW = yaml.safe_load((ROOT / "config.yaml").read_text())
ANNOTATIONS = ["list_attr_celeba.txt", "identity_CelebA.txt", "list_eval_partition.txt"]
IDX = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte.gz"]
LAYOUTS = {
    "mnist": [f"MNIST/raw/{name}" for name in IDX],
    "modelnet40": [
        *("cup/train/cup_1.off", "cup/test/CUP_2.PLY", "bed/train/bed_1.off", "bed/test/bed_2.off", "stand-in.txt")
    ],
    "celeba": [f"img_align_celeba/{number:06}.jpg" for number in (1, 2)] + [f"Anno/{name}" for name in ANNOTATIONS],
    "redmapper": ["redmapper_catalog.fits", "redmapper_members.fit.gz"],
}
OPTIONAL = {"modelnet40": "cup/train/cup_7.off", "celeba": "img_align_celeba/000007.jpg"}
"""A file that may be there or not."""


def write(folder, name, text="one", age_s=100):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@pytest.fixture
def read(monkeypatch):
    """The names of the files whose content is read."""
    names, whole = [], manifest.digest
    monkeypatch.setattr(manifest, "digest", lambda path: names.append(path.name) or whole(path))
    return names


@pytest.mark.parametrize("dataset", LAYOUTS)
def test_changed_added_and_removed_files_are_noticed_in_every_layout(tmp_path, dataset):
    folder, names = tmp_path / "mine", LAYOUTS[dataset]
    settings = {
        "datasets": {dataset: {"source": "folder", "folder": str(folder)}},
        "data_folder": str(tmp_path / "data"),
    }
    config = resolve(RAW, "paper", settings)
    assert "content" not in raw_spec(config, dataset)  # a folder that is not there is left to `fetch`
    for name in names:
        write(folder, name)
    seen = [raw_spec(config, dataset)]
    assert "content" in seen[0]

    def differs():
        seen.append(raw_spec(config, dataset))
        return all(seen[-1] != before for before in seen[:-1])

    for name in names:
        write(folder, name, "two")  # as long as before, and as old
        assert differs(), name
        (folder / name).touch()
        assert raw_spec(config, dataset) == seen[-1]
    (folder / ".DS_Store").write_text("litter")
    (folder / "README.md").write_text("no data")
    assert raw_spec(config, dataset) == seen[-1]
    if added := OPTIONAL.get(dataset):
        write(folder, added)
        assert differs()
        (folder / added).unlink()
        assert raw_spec(config, dataset) == seen[-2]
    (folder / names[0]).unlink()
    assert differs()


@pytest.mark.parametrize("dataset", LAYOUTS)
def test_what_is_watched_is_what_is_read(tmp_path, dataset, read):
    for name in LAYOUTS[dataset]:
        write(tmp_path / "mine", name)
    module = dataset_module(dataset)
    found = module.find(tmp_path / "mine")
    assert sorted(
        path.relative_to(tmp_path / "mine").as_posix() for paths in found.values() for path in paths
    ) == sorted(LAYOUTS[dataset])
    settings = module.SETTINGS(source="folder", folder=str(tmp_path / "mine"))
    content(chain.from_iterable(found.values()), tmp_path / "cache")
    read.clear()
    made = make_manifest(settings, tmp_path / "cache", found, "own", "own data")
    for role, path in paths_in(made).items():
        assert all(one.is_relative_to(path) for one in found[role])
        assert made["files"][role]["files"] == len(found[role])
    assert not read, "files are read once for both"


def test_only_new_and_touched_files_are_read(tmp_path, read):
    files = [write(tmp_path, f"{number}.off") for number in range(3)]
    first = content(files, tmp_path / "cache")
    assert read == ["0.off", "1.off", "2.off"]
    assert content(files, tmp_path / "cache") == first
    assert len(read) == 3
    files[1].touch()
    assert content(files, tmp_path / "cache") == first
    assert read[3:] == ["1.off"]


def test_the_same_size_and_time_do_not_deceive(tmp_path):
    """A program that copies sets the time back."""
    path = write(tmp_path, "x.fits", "one")
    before, times = content([path], tmp_path / "cache"), path.stat()
    time.sleep(0.02)  # the clock of a file system is coarse
    path.write_text("two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert content([path], tmp_path / "cache") != before


def test_a_damaged_listing_is_made_again(tmp_path, read):
    path = write(tmp_path, "x.fits")
    expected = content([path], tmp_path / "cache")
    listing = tmp_path / "cache" / LISTING
    listing.write_text(listing.read_text()[:50])
    assert content([path], tmp_path / "cache") == expected
    assert len(read) == 2
    assert json.loads(listing.read_text())


def test_a_listing_that_cannot_be_written_costs_time_only(tmp_path):
    path = write(tmp_path, "x.fits")
    expected = content([path], tmp_path / "cache")
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("in the way")
    assert content([path], tmp_path / "cache") == expected


def test_a_name_that_is_not_utf8_is_named(tmp_path):
    path = write(tmp_path, os.fsdecode(b"caf\xe9_members.fits"))
    settings = RedmapperSettings(source="folder", folder=str(tmp_path))
    with pytest.raises(manifest.EquisetError, match=r"caf\\xe9_members\.fits' is not UTF-8\. Rename it"):
        make_manifest(settings, tmp_path / "cache", {"members": [path]}, "own", "own data")
