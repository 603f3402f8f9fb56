"""Files that are either whole or absent, what identifies them, and seals that tell a damaged one."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from equiset.errors import DamagedError, EquisetError, MissingFileError

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
        place, digits = _sealed(file.read())
        if place is None:
            raise ValueError(f"{path} has no place for a seal")
        file.seek(place)
        file.write(digits)


def check_seal(path: str | Path) -> None:
    """Raise a `DamagedError` if a file is not what was sealed. One without a seal, made by others, passes."""
    content = Path(path).read_bytes()
    place, digits = _sealed(content)
    if place is not None and not content.startswith(digits, place):
        raise DamagedError(path, "is damaged: its content does not match its seal")


def _sealed(content: bytes) -> tuple[int | None, bytes]:
    """Return where the digits of a seal begin, and what they should be."""
    before, mark, after = content.rpartition(BLANK_SEAL[:-64].encode())
    blank = BLANK_SEAL[-64:].encode()
    place = len(before) + len(mark) if mark else None
    return place, hashlib.sha256(before + mark + blank + after[64:]).hexdigest().encode()


def seal_folder(folder: Path, about: str) -> None:
    """Note the digests of all files of a folder in its file `about`."""
    files = {path.name: digest(path) for path in sorted(folder.iterdir()) if path.name != about}
    write_json(folder / about, {**read_json(folder / about), "files": files})


def check_folder(folder: Path, about: str) -> dict[str, Any]:
    """Return the content of a folder's file `about`, or raise a `DamagedError` if a file is not what it was.

    The error names the folder, whichever file is damaged: it is made as a whole.
    """
    if not folder.is_dir():
        raise MissingFileError(folder)
    try:
        content = read_json(folder / about)
    except EquisetError as error:
        raise DamagedError(folder, f"is damaged: {error}".split(". ")[0]) from None
    if not (isinstance(content, dict) and {"digest", "files"} & content.keys()):
        raise DamagedError(folder, f"is damaged: {about} is not what equiset writes")
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
        raise MissingFileError(Path(path)) from None
    except (OSError, ValueError) as error:
        raise DamagedError(path, f"cannot be read: {error}") from None
    if isinstance(value, dict):
        value.pop(SEAL, None)
    return value


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a mapping that names a key twice, of which YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and key.value in lines:
                raise EquisetError(
                    f"{key.start_mark.name}: key '{key.value}' stands twice, in lines {lines[key.value]} and {line}. "
                    "Keep one of them"
                )
            lines[str(key.value)] = line
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file that somebody wrote; a key that stands twice is named."""
    try:
        with open(path, encoding="utf-8") as file:
            return _UniqueKeys(file).get_single_data()
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise EquisetError(f"{path} cannot be read as YAML: {error}") from None
