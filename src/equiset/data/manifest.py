"""The manifest of a data set: which raw files there are, whose they are, and whether they are still the same."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equiset.data.partial import origin_of
from equiset.data.source import Kind, SourceSettings
from equiset.errors import EquisetError
from equiset.files import digest

FETCH_ANEW = "Delete the manifest and run again, so that the data are fetched anew."
"""What to do when raw files are not what the manifest says."""
ABOUT = ("dataset", "source", "kind", "share", "description")
"""What a manifest and a store say of the data as a whole. `share` is 1.0 for the whole of the paper's data, the share
of its items for a part, and 0.0 otherwise."""


def own_folder(settings: SourceSettings) -> Path:
    """Return the user's folder, which must be there."""
    folder = Path(settings.folder or "").expanduser().absolute()
    if not folder.is_dir():
        raise EquisetError(f"datasets.{settings.name}.folder: there is no folder {folder}")
    return folder


def stand_in_advice(settings: SourceSettings) -> str:
    """Return what to do for whoever cannot download."""
    return f"To run on a stand-in: snakemake --cores all --config 'datasets={{{settings.name}: {{source: stand-in}}}}'"


Identify = Callable[[Path], dict[str, Any]]


def identify(path: Path) -> dict[str, Any]:
    """Return what tells whether a file is still the same."""
    return {"bytes": path.stat().st_size, "sha256": digest(path) if path.is_file() else ""}


def make_manifest(
    settings: SourceSettings,
    paths: dict[str, Path],
    kind: Kind,
    description: str,
    share: float | None = None,
    identify: Identify = identify,
) -> dict[str, Any]:
    """Return the manifest of raw files by role; the share of the paper's data is by default all of them or nothing."""
    origins = {"download": origin_of, "folder": lambda path: str(path.parent), "stand-in": lambda _: "stand-in"}
    origin = origins[settings.source]
    return {
        "dataset": settings.name,
        "source": settings.source,
        "kind": kind,
        "share": float(kind == "whole") if share is None else share,
        "description": description,
        "files": {role: {"path": str(path), **identify(path), "origin": origin(path)} for role, path in paths.items()},
    }


@contextmanager
def read_manifest(manifest: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield what a manifest says of the data as a whole; what the block does not find in it is reported."""
    try:
        if manifest["dataset"] != name:
            raise EquisetError(f"the manifest is one of {manifest['dataset']}, not of {name}. {FETCH_ANEW}")
        yield {key: manifest[key] for key in ABOUT}
    except (KeyError, TypeError) as error:
        raise EquisetError(f"the manifest is not complete ({error!r}). {FETCH_ANEW}") from None


def check_raw(path: Path, is_same: Callable[[Path], bool]) -> None:
    """Refuse a raw file that is not what the manifest says."""
    if not path.exists():
        raise EquisetError(f"{path}, which the manifest names, is gone. {FETCH_ANEW}")
    if not is_same(path):
        raise EquisetError(f"{path} has changed since the manifest was written. {FETCH_ANEW}")


def checked(
    manifest: dict[str, Any], name: str, roles: Iterable[str], identify: Identify = identify
) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return what the manifest says of the data, and the paths of files that are still what it says they are."""
    with read_manifest(manifest, name) as about:
        entries = {role: manifest["files"][role] for role in roles}
        contents = {Path(entry["path"]): {key: entry[key] for key in ("bytes", "sha256")} for entry in entries.values()}
    for path, content in contents.items():
        check_raw(path, lambda path, content=content: identify(path) == content)
    return about, dict(zip(entries, contents, strict=True))
