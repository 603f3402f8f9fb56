"""Files that are either whole or absent, what identifies them, and seals that tell a damaged one."""

import errno
import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equiset.errors import DamagedError, EquisetError

SEAL = "seal"
"""The key under which a JSON, Parquet or safetensors file carries its seal."""
BLANK_SEAL = f"equiset-sha256:{0:064d}"
"""What stands there until `seal` puts the digest of the file in place of the zeros."""
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


def seal(path: str | Path) -> None:
    """Put the digest of a file, taken with a blank seal, into the seal."""
    with open(path, "r+b") as file:
        place, digest = _digest_without_seal(file.read())
        if place is None:
            raise ValueError(f"{path} has no place for a seal")
        file.seek(place)
        file.write(digest.encode())


def check_seal(path: str | Path) -> None:
    """Raise a `DamagedError` if a file is not what was sealed. One without a seal, made by others, passes."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise DamagedError(path, "is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            place, digest = _digest_without_seal(content)
            if place is not None and content[place : place + len(digest)] != digest.encode():
                raise DamagedError(path, "is damaged: its content does not match its seal")


def _digest_without_seal(content: bytes | mmap.mmap) -> tuple[int | None, str]:
    """Return where the digits of a seal begin, and what they should be."""
    mark, digits = (part.encode() for part in (BLANK_SEAL[:-64], BLANK_SEAL[-64:]))
    place = content.rfind(mark)
    if place < 0:
        return None, ""
    place += len(mark)
    sha256 = hashlib.sha256(content[:place])
    sha256.update(digits)
    sha256.update(content[place + len(digits) :])
    return place, sha256.hexdigest()


def seal_folder(folder: Path, about: str) -> None:
    """Note the digests of all files of a folder in its file `about`."""
    files = {path.name: digest(path) for path in sorted(folder.iterdir()) if path.name != about}
    write_json(folder / about, {**read_json(folder / about), "files": files})


def read_about(folder: Path, about: str) -> dict[str, Any]:
    """Return the content of a folder's file `about`. If it is damaged the folder is: it is made as a whole."""
    if not folder.is_dir():
        raise EquisetError(f"{folder} is not there. Run snakemake again: it makes what is missing")
    try:
        content = read_json(folder / about)
    except EquisetError as error:
        raise DamagedError(folder, f"is damaged: {error}".split(". ")[0]) from None
    if not (isinstance(content, dict) and {"digest", "files"} & content.keys()):
        raise DamagedError(folder, f"is damaged: {about} is not what equiset writes")
    return content


def check_folder(folder: Path, about: str) -> dict[str, Any]:
    """Return the content of a folder's file `about`, or raise a `DamagedError` if a file is not what it was."""
    content = read_about(folder, about)
    for name, expected in content.pop("files", {}).items():
        if not (folder / name).is_file():
            raise DamagedError(folder, f"is not complete: {name} is gone")
        if digest(folder / name) != expected:
            raise DamagedError(folder, f"is damaged: {name} does not match its digest")
    return content


def write_json(path: str | Path, value: dict[str, Any]) -> None:
    """Write `value` as readable JSON, atomically and sealed."""
    with atomic_path(path) as partial:
        text = json.dumps({**value, SEAL: BLANK_SEAL}, indent=2, sort_keys=True, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")
        seal(partial)


def read_json(path: str | Path) -> Any:
    """Return what `write_json` wrote; a damaged file is named."""
    try:
        check_seal(path)
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EquisetError(f"{path} is not there. Run snakemake again: it makes what is missing") from None
    except (OSError, ValueError) as error:
        raise DamagedError(path, f"cannot be read: {error}") from None
    if isinstance(value, dict):
        value.pop(SEAL, None)
    return value
