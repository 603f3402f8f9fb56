"""What the files of a folder hold. Each is read once; from then on its size and times tell whether to read it again."""

import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from equiset.data.source import SourceSettings
from equiset.errors import EquisetError
from equiset.files import digest, digest_json, read_json, write_json

KNOWN = "known-files.json"
"""In the data set's folder for downloads: the digest of every file that was looked at, with its size and times."""
_THREADS = 8
_JUST_NOW_NS = 2 * 10**9  # clocks of file systems are coarse: a file of this age can change and keep its times


class Content(NamedTuple):
    """What identifies a file by what it holds."""

    bytes: int
    sha256: str


def identify(settings: SourceSettings, cache: Path) -> str:
    """Return what identifies the files in a user's folder, without reading those that are known.

    Of a folder that cannot be read, nothing is known: whoever fetches the data says why.
    """
    root = Path(settings.folder or "").expanduser().absolute()
    try:
        found = contents(root, list_files(root, settings.endings, settings.depth), cache)
    except EquisetError:
        return "unknown"
    return digest_json({os.fsencode(name).hex(): content for name, content in found.items()})


def list_files(root: Path, endings: tuple[str, ...], depth: int) -> Iterator[str]:
    """Yield the names of files, relative to `root`, with one of some endings and in at most so many levels."""
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                if entry.name.startswith((".", "__MACOSX")):
                    continue
                if entry.name.lower().endswith(endings) and entry.is_file():
                    yield entry.name
                elif depth > 1 and entry.is_dir():
                    below = list_files(root / entry.name, endings, depth - 1)
                    yield from (f"{entry.name}/{name}" for name in below)
    except OSError as error:
        raise EquisetError(f"{root} cannot be read: {error.strerror or error}") from None


def contents(root: Path, names: Iterable[str], cache: Path) -> dict[str, Content]:
    """Return size and SHA-256 of files, by their names relative to `root`.

    Those whose size and times are as they were are not read again. `cache` is the folder in which that is noted.
    """
    root, note = root.absolute(), cache / KNOWN
    try:
        known: dict[str, str] = read_json(note)
    except EquisetError:  # there is none, or it is damaged
        known = {}
    now = time.time_ns()
    stamps, found, new = {}, {}, []
    for name in sorted(names):
        try:
            name.encode()
            status = os.stat(f"{root}/{name}")
        except UnicodeEncodeError:
            raise EquisetError(f"{root}: the name {os.fsencode(name)!r} is not UTF-8. Rename it") from None
        except OSError as error:
            raise EquisetError(f"{root}/{name} cannot be read: {error.strerror or error}") from None
        # The time of the last change of any kind, too: programs that copy set the other one back.
        stamps[name] = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        stamp, _, sha256 = known.get(f"{root}/{name}", "").rpartition(" ")
        if stamp != stamps[name]:
            new.append(name)
        found[name] = Content(status.st_size, sha256)
    if new:
        with ThreadPoolExecutor(_THREADS) as threads:
            for name, sha256 in zip(new, threads.map(lambda name: _digest(root / name), new), strict=True):
                found[name] = Content(found[name].bytes, sha256)
    if new or any(path.startswith(f"{root}/") and path[len(str(root)) + 1 :] not in found for path in known):
        others = {path: stamp for path, stamp in known.items() if not path.startswith(f"{root}/")}
        settled = {name: stamp for name, stamp in stamps.items() if now - int(stamp.split()[2]) > _JUST_NOW_NS}
        with suppress(OSError, EquisetError):  # no space, no permission: then all is read again the next time
            write_json(note, others | {f"{root}/{name}": f"{stamps[name]} {found[name].sha256}" for name in settled})
    return found


def _digest(path: Path) -> str:
    try:
        return digest(path)
    except OSError as error:
        raise EquisetError(f"{path} cannot be read: {error.strerror or error}") from None
