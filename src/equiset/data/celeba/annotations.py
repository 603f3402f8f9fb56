"""CelebA's annotation files: attributes, identities and the official partition of the images."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equiset.errors import EquisetError
from equiset.files import atomic_path

ROLES = ("attributes", "identities", "partition")
PARTS = ("train", "validation", "test")  # 0, 1 and 2 in the partition file
_LARGEST = 2**28  # bytes; CelebA's largest annotation file has a tenth of it
_LONGEST_LINE = 4096
_BLOCK = 20_000  # lines
_WIDEST = 16  # characters of a value
_REMEDY = "Take the file from CelebA's own folder, as it is there"


@dataclass(frozen=True)
class Annotations:
    """What is known of each image, one row for each."""

    files: np.ndarray
    """Names of the images."""
    names: tuple[str, ...]
    """Names of the attributes."""
    attributes: np.ndarray
    """Boolean, (images, attributes)."""
    identity: np.ndarray
    """A number for each person."""
    partition: np.ndarray
    """0 training, 1 validation, 2 test."""

    def take(self, rows: np.ndarray) -> "Annotations":
        """Return the annotations of some rows."""
        return Annotations(
            self.files[rows], self.names, self.attributes[rows], self.identity[rows], self.partition[rows]
        )


def read_annotations(paths: Mapping[str, Path]) -> Annotations:
    """Read the three files and bring their rows into the order of the attribute file."""
    files, names, attributes = _read_attributes(paths["attributes"])
    columns = {}
    for role in ("identities", "partition"):
        other, values = _read_numbers(paths[role])
        columns[role] = values[_rows_of(files, other, paths["attributes"], paths[role])]
    if columns["partition"].max() >= len(PARTS):
        raise EquisetError(
            f"{paths['partition']} holds the part {columns['partition'].max()}; there are 0 (training), 1 (validation) "
            "and 2 (test)"
        )
    return Annotations(files, names, attributes, columns["identities"], columns["partition"].astype(np.uint8))


def write_annotations(annotations: Annotations, paths: Mapping[str, Path]) -> None:
    """Write the three files as CelebA's are: a header in the first, values 1 and -1, lines that end with CR LF."""
    rows = zip(annotations.files, np.where(annotations.attributes, " 1", "-1"), strict=True)
    lines = [str(len(annotations.files)), " ".join(annotations.names) + " "]
    lines += [f"{file} {' '.join(values).lstrip()}" for file, values in rows]
    _write(paths["attributes"], lines)
    for role, values in (("identities", annotations.identity), ("partition", annotations.partition)):
        _write(paths[role], [f"{file} {value}" for file, value in zip(annotations.files, values, strict=True)])


def _write(path: Path, lines: list[str]) -> None:
    with atomic_path(path) as partial:
        partial.write_bytes("".join(f"{line}\r\n" for line in lines).encode())


def _read_attributes(path: Path) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    lines = _lines(path)
    names = tuple(lines[1].decode().split()) if len(lines) > 1 else ()
    if len(names) < 2 or len(set(names)) < len(names):
        raise EquisetError(f"{path}, line 2: expected the different names of the attributes. {_REMEDY}")
    if not lines[0].strip().isdigit() or int(lines[0]) != len(lines) - 2:
        raise EquisetError(
            f"{path}, line 1: expected the number of rows, {len(lines) - 2}, got {lines[0][:40]!r}; a download that "
            f"was cut off? {_REMEDY}"
        )
    files, values = _table(path, lines, 2, 1 + len(names))
    true = values == b"1"
    wrong = ~true & (values != b"-1")
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        value = values[row, column].decode()
        raise EquisetError(f"{path}, line {row + 3}: {names[column]} must be 1 or -1, not {value!r}. {_REMEDY}")
    return files, names, true


def _read_numbers(path: Path) -> tuple[np.ndarray, np.ndarray]:
    files, values = _table(path, _lines(path), 0, 2)
    try:
        numbers = values[:, 0].astype(np.int32)
    except (ValueError, OverflowError):
        row = next(row for row, value in enumerate(values[:, 0]) if not value.isdigit() or len(value) > 9)
        raise EquisetError(f"{path}, line {row + 1}: {values[row, 0]!r} is not a number. {_REMEDY}") from None
    if numbers.min() < 0:
        raise EquisetError(f"{path}, line {numbers.argmin() + 1}: a negative number. {_REMEDY}")
    return files, numbers


def _lines(path: Path) -> list[bytes]:
    if path.stat().st_size > _LARGEST:
        raise EquisetError(f"{path} has {path.stat().st_size} bytes, which is no annotation file. {_REMEDY}")
    content = path.read_bytes()
    if content[:512].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise EquisetError(
            f"{path} is a web page, perhaps the quota or login page of the server, and not the annotation file. "
            "Download it again, later or by hand"
        )
    if strange := re.search(rb"[^\x01-\x7f]", content):
        line = content.count(b"\n", 0, strange.start()) + 1
        raise EquisetError(f"{path}, line {line}: a byte that is no plain text, {strange[0]!r}. {_REMEDY}")
    lines = content.splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise EquisetError(f"{path} is empty. {_REMEDY}")
    if max(map(len, lines)) > _LONGEST_LINE:
        raise EquisetError(f"{path} holds a line of more than {_LONGEST_LINE} characters. {_REMEDY}")
    return lines


def _table(path: Path, lines: list[bytes], skip: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first column as text and the others as bytes."""
    files, values = [], []
    for start in range(skip, len(lines), _BLOCK):
        block = lines[start : start + _BLOCK]
        tokens = b"\n".join(block).split()
        table = np.array(tokens).reshape(-1, width) if len(tokens) == len(block) * width else None
        # Two wrong lines may make up for each other; then a line begins with something else than its name.
        if table is None or not all(
            name.endswith((b".jpg", b".png")) and line.split(None, 1)[:1] == [name]
            for name, line in zip(table[:, 0], block, strict=True)
        ):
            fields = [(len(line.split()), line[:40]) for line in block]
            row = next((row for row, (count, _) in enumerate(fields) if count != width), 0)
            raise EquisetError(
                f"{path}, line {start + row + 1}: expected the name of an image and {width - 1} value(s), got "
                f"{fields[row][1]!r}. {_REMEDY}"
            )
        # The type is as wide as the longest token. A value that does not fit would be cut without a word.
        if table.dtype.itemsize > _WIDEST and (np.char.str_len(table[:, 1:]) > _WIDEST).any():
            raise EquisetError(f"{path}, lines {start + 1} and following: a value of more than {_WIDEST} characters")
        files.append(table[:, 0].astype(str))
        values.append(table[:, 1:].astype(f"S{_WIDEST}"))
    if not files:
        raise EquisetError(f"{path} describes no image. {_REMEDY}")
    return np.concatenate(files), np.concatenate(values)


def _rows_of(files: np.ndarray, other: np.ndarray, path: Path, other_path: Path) -> np.ndarray:
    """Return where each of `files` stands in `other`."""
    order = np.argsort(other, kind="stable")
    sorted_other = other[order]
    if (sorted_other[1:] == sorted_other[:-1]).any():
        name = sorted_other[1:][sorted_other[1:] == sorted_other[:-1]][0]
        raise EquisetError(f"{other_path} names {name} twice. {_REMEDY}")
    if len(np.unique(files)) < len(files):
        raise EquisetError(f"{path} names an image twice. {_REMEDY}")
    position = np.searchsorted(sorted_other, files).clip(max=len(other) - 1)
    absent = sorted_other[position] != files
    if absent.any():
        raise EquisetError(
            f"{other_path} lacks {files[absent][0]} and {absent.sum() - 1} other image(s) that {path.name} names. "
            f"All three annotation files must belong together"
        )
    return order[position]
