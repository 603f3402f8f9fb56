"""Unpacks zip files from elsewhere: nothing leaves the folder, nothing grows beyond what was announced."""

import logging
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from equiset.errors import EquisetError
from equiset.files import atomic_path

log = logging.getLogger(__name__)

_CHUNK = 2**20
_NOTES = "Do not use this file: get it again from its source"
# What the archiver of macOS leaves behind.
_LITTER_FOLDER, _LITTER_FILE = "__MACOSX", ".DS_Store"


def unpack(
    archive: str | Path,
    folder: str | Path,
    *,
    most_bytes: int,
    most_files: int = 1_000_000,
    wanted: Callable[[str], bool] = lambda name: True,
) -> list[str]:
    """Unpack a zip file into `folder`, which appears only when it is complete; return the names of the files.

    All entries are checked before the first is written. An archive is refused that has a path out of the folder, a
    link or another special file, an encrypted entry, a name twice, or more files or bytes than it may have; and so
    is an entry that turns out not to be what the archive announces. `wanted` chooses among the rest by their names,
    with `/` between folders. An existing folder is replaced.
    """
    archive, folder = Path(archive), Path(folder)
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = [entry for entry in _checked(archive, opened, most_bytes, most_files) if wanted(entry.filename)]
            _check_space(archive, folder, sum(entry.file_size for entry in entries))
            with atomic_path(folder) as partial:
                partial.mkdir()
                for entry in entries:
                    _write(archive, opened, entry, partial)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, ValueError) as error:
        raise EquisetError(f"{archive} is damaged or no zip file: {error}. {_NOTES}") from None
    log.info("%s: %d files unpacked", archive.name, len(entries))
    return [entry.filename for entry in entries]


def _checked(archive: Path, opened: zipfile.ZipFile, most_bytes: int, most_files: int) -> list[zipfile.ZipInfo]:
    """Return the entries that are files and no litter, or refuse the archive."""
    entries, seen, total = [], set(), 0
    for entry in opened.infolist():
        if fault := _fault(entry):
            raise EquisetError(f"{archive}: the entry {entry.filename[:100]!r} {fault}. {_NOTES}")
        path = PurePosixPath(entry.filename)
        if entry.is_dir() or _LITTER_FOLDER in path.parts or path.name == _LITTER_FILE:
            continue
        # Two names that differ in case alone are one file on some systems.
        if (folded := str(path).casefold()) in seen:
            raise EquisetError(f"{archive}: the entry {entry.filename[:100]!r} is there twice. {_NOTES}")
        seen.add(folded)
        entries.append(entry)
        total += entry.file_size
        if len(entries) > most_files or total > most_bytes:
            raise EquisetError(
                f"{archive} would unpack to more than the {most_files} files or {most_bytes} bytes that it may have. "
                f"{_NOTES}"
            )
    return entries


def _fault(entry: zipfile.ZipInfo) -> str | None:
    # `orig_filename` still has what follows a NUL, and on Windows its backslashes.
    name = entry.orig_filename
    path = PurePosixPath(name)
    if "\\" in name or "\0" in name or ":" in (path.parts or ("",))[0] or path.is_absolute() or ".." in path.parts:
        return "leads out of the folder"
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link" if kind == stat.S_IFLNK else "is a special file"
    if entry.flag_bits & 0x1:
        return "is encrypted"
    return None


def _check_space(archive: Path, folder: Path, needed: int) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if needed > free:
        raise EquisetError(f"{archive} needs {needed} bytes unpacked, and {folder.parent} has {free} free: make room")


def _write(archive: Path, opened: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path) -> None:
    path = folder / PurePosixPath(entry.filename)
    path.parent.mkdir(parents=True, exist_ok=True)
    length = 0
    try:
        with opened.open(entry) as source, path.open("wb") as target:
            while chunk := source.read(_CHUNK):
                length += len(chunk)
                if length > entry.file_size:
                    raise zipfile.BadZipFile("more bytes than announced")
                target.write(chunk)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        fault = f"is not the {entry.file_size} bytes that the archive announces ({error})"
        raise EquisetError(f"{archive}: the entry {entry.filename[:100]!r} {fault}. {_NOTES}") from None
    if length != entry.file_size:
        fault = f"has {length} bytes, announced were {entry.file_size}"
        raise EquisetError(f"{archive}: the entry {entry.filename[:100]!r} {fault}. {_NOTES}")
