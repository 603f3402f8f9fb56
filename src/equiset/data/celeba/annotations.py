"""CelebA's annotation files: attributes, identities and the official partition of the images."""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from equiset.data.download import is_web_page
from equiset.errors import EquisetError
from equiset.files import atomic_path

PARTS = ("train", "validation", "test")  # 0, 1 and 2 in the partition file
NUMBERS = {"identities": "identity", "partition": "partition"}
"""The files that hold one number for each image -> the column of the annotations that it becomes."""
_REMEDY = "Take the file from CelebA's own folder, as it is there"


def read_annotations(paths: Mapping[str, Path]) -> pd.DataFrame:
    """Read the three files: a row for each image, in the order of the attribute file.

    The columns are `file`, `identity`, a number for each person, `partition`, 0, 1 or 2 for training, validation and
    test, and the attributes, true or false.
    """
    attributes = _read_attributes(paths["attributes"])
    columns = {"file": attributes.index.to_numpy(str)}
    for role, name in NUMBERS.items():
        numbers = _read_numbers(paths[role])
        absent = attributes.index[~attributes.index.isin(numbers.index)]
        if len(absent):
            raise EquisetError(
                f"{paths[role]} lacks {absent[0]} and {len(absent) - 1} other image(s) that {paths['attributes'].name} "
                "names. All three annotation files must belong together"
            )
        columns[name] = numbers.loc[attributes.index].to_numpy()
    if (most := columns["partition"].max()) >= len(PARTS):
        raise EquisetError(
            f"{paths['partition']} has {most} where 0 (training), 1 (validation) or 2 (test) is expected"
        )
    columns["partition"] = columns["partition"].astype(np.uint8)
    return pd.DataFrame(columns | {name: attributes[name].to_numpy() for name in attributes})


def write_annotations(annotations: pd.DataFrame, paths: Mapping[str, Path]) -> None:
    """Write the three files as CelebA's are: a header in the first, values 1 and -1, lines that end with CR LF."""
    files, attributes = annotations["file"], annotations.drop(columns=["file", *NUMBERS.values()])
    rows = zip(files, np.where(attributes, " 1", "-1"), strict=True)
    lines = [str(len(files)), " ".join(attributes) + " "]
    lines += [f"{file} {' '.join(values).lstrip()}" for file, values in rows]
    _write(paths["attributes"], lines)
    for role, name in NUMBERS.items():
        _write(paths[role], [f"{file} {value}" for file, value in zip(files, annotations[name], strict=True)])


def _write(path: Path, lines: list[str]) -> None:
    with atomic_path(path) as partial:
        partial.write_bytes("".join(f"{line}\r\n" for line in lines).encode())


def _read_attributes(path: Path) -> pd.DataFrame:
    with path.open(encoding="ascii", errors="replace") as file:
        count, names = file.readline(1000).strip(), file.readline(10_000).split()
    values = _read_values(path, skip=2)
    if len(names) < 2 or len({*names}) < len(names) or len(names) != values.shape[1]:
        raise EquisetError(
            f"{path}, line 2: expected the names of the {values.shape[1]} attributes, each once. {_REMEDY}"
        )
    if count != str(len(values)):
        raise EquisetError(
            f"{path}, line 1: expected the number of rows, {len(values)}, got {count[:40]!r}; is it cut off? {_REMEDY}"
        )
    numbers = values.apply(pd.to_numeric, errors="coerce").to_numpy()
    if (wrong := np.abs(numbers) != 1).any():
        row, column = np.argwhere(wrong)[0]
        value = values.iat[row, column]
        raise EquisetError(f"{path}, line {row + 3}: {names[column]} must be 1 or -1, not {value!s:.40}. {_REMEDY}")
    return pd.DataFrame(numbers == 1, values.index, names)


def _read_numbers(path: Path) -> pd.Series:
    values = _read_values(path, skip=0)
    numbers = pd.to_numeric(values.iloc[:, 0], errors="coerce")
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers < 2**31) & (numbers % 1 == 0)))
    if len(wrong) or values.shape[1] > 1:
        row = wrong[0] if len(wrong) else 0
        raise EquisetError(
            f"{path}, line {row + 1}: expected the name of an image and a number, got "
            f"{' '.join(map(str, values.iloc[row]))[:40]!r}. {_REMEDY}"
        )
    return numbers.astype(np.int32)


def _read_values(path: Path, skip: int) -> pd.DataFrame:
    """Return what a file has after its first lines, by the names of the images."""
    with path.open("rb") as file:
        if is_web_page(file.read(512)):
            raise EquisetError(
                f"{path} is a web page, perhaps the quota or login page of the server, and not the annotation file. "
                "Download it again, later or by hand"
            )
    try:
        table = pd.read_csv(
            path, sep=r"\s+", header=None, skiprows=skip, index_col=0, encoding="ascii", quoting=csv.QUOTE_NONE
        )
    except pd.errors.EmptyDataError:
        raise EquisetError(f"{path} is empty or cut off. {_REMEDY}") from None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise EquisetError(f"{path} cannot be read: {' '.join(str(error).split())}. {_REMEDY}") from None
    if table.shape[1] == 0 or (short := table.isna().any(axis=1)).any():
        row = 0 if table.shape[1] == 0 else int(short.argmax())
        width = max(table.shape[1], 1)
        raise EquisetError(f"{path}, line {row + skip + 1}: expected an image's name and {width} value(s). {_REMEDY}")
    table.index = table.index.astype(str)
    if (strange := ~table.index.str.endswith((".jpg", ".png"))).any():
        row = int(strange.argmax())
        raise EquisetError(
            f"{path}, line {row + skip + 1}: {table.index[row][:40]!r} is not the name of an image. {_REMEDY}"
        )
    if not table.index.is_unique:
        raise EquisetError(f"{path} names {table.index[table.index.duplicated()][0]} twice. {_REMEDY}")
    return table
