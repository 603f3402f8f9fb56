"""A user's files are inputs in effect: what changes in them identifies the folder anew, and nothing else does."""

import json
import os
import shutil
import time

import pytest

from equiset.data import inventory
from equiset.data.celeba import CelebaSettings
from equiset.data.celeba import fetch as fetch_celeba
from equiset.data.celeba import prepare as prepare_celeba
from equiset.data.inventory import KNOWN, contents, identify, list_files
from equiset.data.mnist import MnistSettings
from equiset.data.modelnet40 import ModelNetSettings
from equiset.data.modelnet40 import fetch as fetch_meshes
from equiset.data.redmapper import RedmapperSettings
from equiset.errors import EquisetError

LAYOUTS = {
    MnistSettings: ["train-images-idx3-ubyte.gz", "MNIST/raw/t10k-labels-idx1-ubyte"],
    ModelNetSettings: ["cup/train/cup_1.off", "cup/test/CUP_2.PLY", "stand-in.txt"],
    CelebaSettings: ["Anno/list_attr_celeba.txt", "celeba/img_align_celeba/img_align_celeba/000001.jpg"],
    RedmapperSettings: ["redmapper_catalog.fits", "redmapper_members.fit.gz"],
}


def write(folder, name, content="one", age_s=100):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Files of this moment are known, too, or every test would have to wait."""
    monkeypatch.setattr(inventory, "_JUST_NOW_NS", 0)


@pytest.fixture
def read(monkeypatch):
    """The names of the files whose content is read."""
    names, whole = [], inventory.digest
    monkeypatch.setattr(inventory, "digest", lambda path: names.append(path.name) or whole(path))
    return names


@pytest.mark.parametrize("kind", LAYOUTS, ids=lambda kind: kind.name)
def test_changed_added_and_removed_files_are_noticed_in_every_layout(tmp_path, kind):
    folder, cache = tmp_path / "mine", tmp_path / "cache"
    for name in LAYOUTS[kind]:
        write(folder, name)
    settings = kind(source="folder", folder=str(folder))
    seen = [identify(settings, cache)]

    def differs():
        seen.append(identify(settings, cache))
        return len(set(seen)) == len(seen)

    for name in LAYOUTS[kind]:
        write(folder, name, "two")  # as long as before, and as old
        assert differs(), name
    added = folder / LAYOUTS[kind][0].replace("1", "7").replace("catalog", "catalog2").replace("train-", "other-")
    added = added.with_name(f"new-{added.name}")
    shutil.copy(folder / LAYOUTS[kind][0], added)
    assert differs()
    added.unlink()
    (folder / ".DS_Store").write_text("litter")
    (folder / "README.md").write_text("no data")
    assert identify(settings, cache) == seen[-2]
    (folder / LAYOUTS[kind][0]).unlink()
    assert differs()


def test_only_new_and_touched_files_are_read_and_a_touch_changes_nothing(tmp_path, read):
    for number in range(3):
        write(tmp_path, f"a/train/{number}.off")
    settings = ModelNetSettings(source="folder", folder=str(tmp_path))
    first = identify(settings, tmp_path / "cache")
    assert sorted(read) == ["0.off", "1.off", "2.off"]
    assert identify(settings, tmp_path / "cache") == first
    assert len(read) == 3
    (tmp_path / "a" / "train" / "1.off").touch()
    assert identify(settings, tmp_path / "cache") == first
    assert read[3:] == ["1.off"]


def test_the_same_size_and_time_do_not_deceive(tmp_path):
    """A program that copies sets the time back."""
    path = write(tmp_path, "x.fits", "one")
    before, times = contents(tmp_path, ["x.fits"], tmp_path / "cache"), path.stat()
    path.write_text("two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert contents(tmp_path, ["x.fits"], tmp_path / "cache") != before


def test_a_file_of_this_moment_is_read_again(tmp_path, read, monkeypatch):
    monkeypatch.setattr(inventory, "_JUST_NOW_NS", 10**11)
    write(tmp_path, "x.fits")
    for _ in range(2):
        contents(tmp_path, ["x.fits"], tmp_path / "cache")
    assert read == ["x.fits", "x.fits"]


@pytest.mark.parametrize("damage", [lambda text: text[:50], lambda text: text.replace("x.fits ", "y.fits", 1)[:-3]])
def test_damaged_notes_are_made_anew(tmp_path, read, damage):
    write(tmp_path, "x.fits")
    expected = contents(tmp_path, ["x.fits"], tmp_path / "cache")
    note = tmp_path / "cache" / KNOWN
    note.write_text(damage(note.read_text()))
    assert contents(tmp_path, ["x.fits"], tmp_path / "cache") == expected
    assert len(read) == 2
    assert json.loads(note.read_text())


def test_notes_that_cannot_be_written_cost_time_only(tmp_path):
    write(tmp_path, "x.fits")
    (tmp_path / "cache").write_text("in the way")
    assert contents(tmp_path, ["x.fits"], tmp_path / "cache")["x.fits"].bytes == 3


def test_a_folder_that_is_gone_is_unknown_and_left_to_fetch(tmp_path):
    settings = RedmapperSettings(source="folder", folder=str(tmp_path / "absent"))
    assert identify(settings, tmp_path / "cache") == "unknown"
    with pytest.raises(EquisetError, match="absent cannot be read"):
        list(list_files(tmp_path / "absent", (".fits",), 1))


def test_a_name_that_is_not_utf8_is_said_in_a_sentence(tmp_path):
    folder = tmp_path / "mine"
    for kind in (b"cup", b"caf\xe9"):
        for split in (b"train", b"test"):
            path = os.fsencode(folder) + b"/" + kind + b"/" + split
            os.makedirs(path)
            with open(path + b"/a.off", "wb") as file:
                file.write(b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")
    settings = ModelNetSettings(source="folder", folder=str(folder))
    with pytest.raises(EquisetError, match=r"caf\\xe9/test/a\.off' is not UTF-8\. Rename it"):
        fetch_meshes(settings, tmp_path / "cache")
    assert identify(settings, tmp_path / "cache") == "unknown"


def test_an_unpacked_image_that_changes_after_fetch_is_noticed(tmp_path):
    stand_in = {"train": 20, "validation": 20, "test": 20}
    made = fetch_celeba(CelebaSettings(source="stand-in", stand_in=stand_in), tmp_path / "stand_in")
    folder = tmp_path / "mine"
    folder.mkdir()
    for role, entry in made["files"].items():
        if role == "images":
            shutil.unpack_archive(entry["path"], folder)
        else:
            shutil.copy(entry["path"], folder)
    settings = CelebaSettings(source="folder", folder=str(folder))
    manifest = fetch_celeba(settings, tmp_path / "cache")
    victim = folder / "img_align_celeba" / "000001.jpg"
    content = bytearray(victim.read_bytes())
    content[-9] ^= 1
    victim.write_bytes(content)
    with pytest.raises(EquisetError, match="img_align_celeba has changed since the manifest was written"):
        prepare_celeba(manifest, tmp_path / "store", settings)
