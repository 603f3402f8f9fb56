"""The manifest of a data set: which raw files there are, and whose data they hold."""

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from equiset.data.source import Kind, SourceSettings
from equiset.errors import EquisetError
from equiset.files import digest, digest_json, read_json, write_json

RawFiles = dict[str, list[Path]]
"""The raw files of a data set by role: mostly one for each, or many, such as all images of a folder."""
LISTING = "own-files.json"
"""In the cache of a data set: what the user's files were when they were last looked at."""


def own_folder(settings: SourceSettings) -> Path:
    """Return the user's folder, which must be there."""
    folder = Path(settings.folder or "").expanduser().absolute()
    if not folder.is_dir():
        raise EquisetError(f"datasets.{settings.name}.folder: there is no folder {folder}")
    return folder


def stand_in_advice(settings: SourceSettings) -> str:
    """Return what to do for whoever cannot download."""
    return f"To run on a stand-in: snakemake --cores all --config 'datasets={{{settings.name}: {{source: stand-in}}}}'"


def of_the_paper(name: str, present: int, whole: int, items: str) -> dict[str, Any]:
    """Describe the paper's own data: the whole of it, or a part by the number of items that are present."""
    if present == whole:
        return {"kind": "whole", "share": 1.0, "description": name}
    return {"kind": "part", "share": present / whole, "description": f"{name}, {present:,} of {whole:,} {items}"}


def make_manifest(
    settings: SourceSettings,
    cache: Path,
    files: RawFiles,
    kind: Kind,
    description: str,
    share: float | None = None,
) -> dict[str, Any]:
    """Return the manifest of raw files.

    `share` is that of the paper's items: 1.0 for all of them, the default for `kind` "whole", and 0.0 for none.
    """
    sha256 = _digests(chain.from_iterable(files.values()), cache)
    return {
        "dataset": settings.name,
        "source": settings.source,
        "kind": kind,
        "share": float(kind == "whole") if share is None else share,
        "description": description,
        "files": {role: _describe(paths, sha256) for role, paths in files.items()},
    }


def about(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what a manifest says of the data as a whole, which their store repeats."""
    return {key: manifest[key] for key in ("dataset", "source", "kind", "share", "description")}


def paths_in(manifest: dict[str, Any]) -> dict[str, Path]:
    """Return the raw file, or the folder of the raw files, for each role."""
    return {role: Path(entry["path"]) for role, entry in manifest["files"].items()}


def _describe(paths: list[Path], sha256: dict[str, str]) -> dict[str, Any]:
    size = sum(path.stat().st_size for path in paths)
    if len(paths) == 1:
        return {"path": str(paths[0]), "files": 1, "bytes": size, "sha256": sha256[str(paths[0])]}
    folder = os.path.commonpath(paths)
    whole = digest_json({os.path.relpath(path, folder): sha256[str(path)] for path in paths})
    return {"path": folder, "files": len(paths), "bytes": size, "sha256": whole}


def content(paths: Iterable[Path], cache: Path) -> str:
    """Return what identifies files by their names and what they hold. `cache` is where digests are remembered."""
    return digest_json(_digests(paths, cache))


def _digests(paths: Iterable[Path], cache: Path) -> dict[str, str]:
    """Return the SHA-256 of files by name; only those are read that are new, or have another size or time than before.

    `cache` is the folder in which that is remembered.
    """
    memory = cache / LISTING
    try:
        known = read_json(memory)
    except EquisetError:  # there is none, or it is damaged
        known = {}
    found = {}
    for path in sorted(paths):
        name = str(path)
        try:
            name.encode()
            status = path.stat()
        except UnicodeEncodeError:
            raise EquisetError(f"{path.parent}: the name {os.fsencode(path.name)!r} is not UTF-8. Rename it") from None
        except OSError as error:
            raise EquisetError(f"{path} cannot be read: {error.strerror or error}") from None
        # The time of the last change of any kind as well: programs that copy set the other one back.
        stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        *before, sha256 = known.get(name, [None])
        found[name] = [*stamp, sha256 if before == stamp else digest(path)]
    if found != known:
        with suppress(EquisetError, OSError):  # a cache that cannot be written: then all are read again the next time
            write_json(memory, found)
    return {name: sha256 for name, (*_, sha256) in found.items()}
