"""Reads the workflow's own tables, and says in one line if a file is damaged or from a version to come."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from equiset.errors import EquisetError


def read_parquet(path: Path, columns: list[str] | None = None) -> pd.DataFrame:
    with _said_plainly(path):
        return pd.read_parquet(path, columns=columns)


def read_arrow(path: Path, columns: list[str] | None = None) -> pa.Table:
    with _said_plainly(path):
        return pq.read_table(path, columns=columns)


@contextmanager
def _said_plainly(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise EquisetError(f"{path} is not there. Run snakemake again: it makes what is missing") from None
    # pyarrow reports a damaged or an unknown form as one of these.
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EquisetError(
            f"{path} cannot be read: {reason}. It is damaged, or was written by a newer version of pyarrow (this is "
            f"{pa.__version__}): remove it and run snakemake again"
        ) from None
