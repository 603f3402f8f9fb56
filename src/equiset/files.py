"""Files that are either whole or absent, and what identifies them."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equiset.errors import EquisetError

_NEARLY_NOTHING = 2**16  # bytes


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the place of `path` only if the block succeeds.

    The block writes a file or a folder there. Whatever happens, no half-written `path` is ever seen,
    and what an interrupted process left behind is removed by the next one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    _remove(partial)
    try:
        yield partial
        if partial.is_file():
            with partial.open("rb") as file:
                os.fsync(file.fileno())
        elif path.is_dir():
            shutil.rmtree(path)
        os.replace(partial, path)
    except Exception as error:
        if is_full(error, path.parent):
            raise EquisetError(f"no space is left to write {path}. Make room and run the same command again") from None
        raise
    finally:
        _remove(partial)


def is_full(error: Exception, folder: Path) -> bool:
    """Say whether an error means that the disk of a folder is full. Each library has its own words for it."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return "No space left" in str(error) or shutil.disk_usage(folder).free < _NEARLY_NOTHING


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def digest(path: str | Path, algorithm: str = "sha256") -> str:
    """Return the hexadecimal checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def canonical_json(value: Any) -> str:
    """Return the one JSON text that stands for `value`: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_json(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically."""
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    return json.loads(Path(path).read_text())
