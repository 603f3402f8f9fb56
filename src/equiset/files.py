"""Files that are either whole or absent: JSON, Parquet and YAML, and digests."""

import errno
import gzip
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from equiset.errors import EquisetError, MissingFileError

if TYPE_CHECKING:
    import pandas as pd

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


def read_maybe_gzip(path: str | Path) -> bytes:
    """Return the content of a file, decompressed if it is a gzip file; one that is missing or damaged is named."""
    path, again = Path(path), "Remove the file and fetch it again."
    try:
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            return gzip.decompress(content)
    except EOFError:
        raise EquisetError(f"{path} is cut off: the compressed data end too early. {again}") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise EquisetError(f"{path} is damaged: {error}. {again}") from None
    except OSError as error:
        raise EquisetError(f"{path} cannot be read: {error.strerror or error}") from None
    if path.suffix == ".gz":
        raise EquisetError(f"{path} is not a gzip file, despite its name. {again}")
    return content


def canonical_json(value: Any) -> str:
    """Return the one JSON text that stands for `value`: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_json(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def write_json(path: str | Path, value: dict[str, Any]) -> None:
    """Write `value` as readable JSON, atomically."""
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file; a file that is missing or damaged is named."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingFileError(Path(path)) from None
    except (OSError, ValueError) as error:
        raise EquisetError(f"{path} cannot be read: {error}. Delete it and run the same command again") from None


def write_parquet(path: Path, table: "pd.DataFrame") -> None:
    """Write a table without its index, atomically."""
    with atomic_path(path) as partial:
        table.to_parquet(partial, index=False, compression="zstd")


def read_parquet(path: Path, columns: list[str] | None = None) -> "pd.DataFrame":
    """Return a table; a file that is missing or damaged is named."""
    return read_arrow(path, columns).to_pandas()


def read_arrow(path: Path, columns: list[str] | None = None) -> Any:
    """Return a table of pyarrow; a file that is missing or damaged is named."""
    import pyarrow as pa  # here, so that reading the config stays quick
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, columns=columns)
    except FileNotFoundError:
        raise MissingFileError(Path(path)) from None
    # pyarrow reports a damaged or an unknown form as one of these.
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EquisetError(
            f"{path} cannot be read: {reason}. It is damaged, or was written by a newer version of pyarrow (this is "
            f"{pa.__version__}). Delete it and run the same command again"
        ) from None


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
