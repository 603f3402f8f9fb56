"""Zip files from elsewhere: what is harmless is unpacked, all else is refused before or while it is written."""

import stat
import struct
import zipfile

import pytest

from equiset.data.download import unpack
from equiset.errors import EquisetError


def packed(path, entries, **options):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content, **options)
    return path


def refused(archive, folder, reason):
    with pytest.raises(EquisetError, match=reason) as caught:
        unpack(archive, folder)
    assert archive.name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in archive.parent.iterdir()) == [archive.name]


def test_files_are_unpacked_without_litter(tmp_path):
    entries = [("a/train/1.off", "one"), ("a/test/2.off", "two"), ("__MACOSX/a/._1.off", "x"), ("a/.DS_Store", "x")]
    archive = packed(tmp_path / "good.zip", [("a/", ""), *entries, ("a/readme.txt", "no")])
    unpack(archive, tmp_path / "out", wanted=lambda name: name.endswith(".off"))
    found = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*"))
    assert found == ["a/test/2.off", "a/train/1.off"]
    assert (tmp_path / "out/a/train/1.off").read_text() == "one"


@pytest.mark.parametrize(
    "name",
    ["../evil", "a/../../evil", "/etc/evil", "..\\evil", "C:/evil", "c:evil", "a\\b", "..", "a/..", "good\0../x"],
)
def test_no_path_leaves_the_folder(tmp_path, name):
    archive = tmp_path / "evil.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        info = zipfile.ZipInfo("x" * len(name))
        opened.writestr(info, "content")
    # The writer of Python cleans some names, so the name is put in afterwards.
    content = archive.read_bytes().replace(b"x" * len(name), name.encode())
    archive.write_bytes(content)
    refused(archive, tmp_path / "out", "leads out of the folder")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO])
def test_no_links_and_no_special_files(tmp_path, kind):
    info = zipfile.ZipInfo("a/link")
    info.external_attr = (kind | 0o777) << 16
    refused(
        packed(tmp_path / "evil.zip", [("a/1", "1"), (info, "/etc/passwd")]),
        tmp_path / "out",
        "is a link or a special file",
    )


def test_no_bomb(tmp_path):
    archive = packed(tmp_path / "bomb.zip", [("a", bytes(10**6)), ("b", b"1")])
    assert archive.stat().st_size < 5000
    refused(archive, tmp_path / "out", r"\d+ bytes would unpack to 1000001")


@pytest.mark.parametrize("announced", [10, 5000])
def test_no_lies_about_sizes(tmp_path, announced):
    archive = packed(tmp_path / "liar.zip", [("first", b"1"), ("liar", bytes(range(250)) * 4)])
    content = bytearray(archive.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", announced)
    archive.write_bytes(content)
    refused(archive, tmp_path / "out", "'liar'")


def test_no_encrypted_entries(tmp_path):
    archive = packed(tmp_path / "secret.zip", [("a", b"1")])
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    refused(archive, tmp_path / "out", "is encrypted")


def test_damaged_content(tmp_path):
    archive = packed(tmp_path / "damaged.zip", [("a", bytes(range(200)))])
    content = bytearray(archive.read_bytes())
    content[60] ^= 0xFF
    archive.write_bytes(content)
    refused(archive, tmp_path / "out", "cannot be unpacked")


@pytest.mark.parametrize("content", [b"", b"PK", b"<!doctype html><title>Quota exceeded</title>"])
def test_no_zip_file(tmp_path, content):
    archive = tmp_path / "page.zip"
    archive.write_bytes(content)
    refused(archive, tmp_path / "out", "cannot be unpacked")


def test_a_failure_leaves_the_old_folder_alone(tmp_path):
    old = tmp_path / "out"
    old.mkdir()
    (old / "kept").write_text("kept")
    with pytest.raises(EquisetError):
        unpack(packed(tmp_path / "evil.zip", [("good", "1"), ("../evil", "2")]), old)
    assert [path.name for path in old.iterdir()] == ["kept"]
