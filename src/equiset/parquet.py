"""The workflow's own tables: written with a seal, and read with one line if a file is damaged."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from equiset.errors import DamagedError, MissingFileError
from equiset.files import BLANK_SEAL, SEAL, atomic_path, check_seal, seal


def write_parquet(path: Path, table: pd.DataFrame) -> None:
    """Write a table without its index, atomically and sealed."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), SEAL: BLANK_SEAL})
    with atomic_path(path) as partial:
        pq.write_table(arrow, partial, compression="zstd")
        seal(partial)


def read_parquet(path: Path, columns: list[str] | None = None) -> pd.DataFrame:
    return read_arrow(path, columns).to_pandas()


def read_arrow(path: Path, columns: list[str] | None = None) -> pa.Table:
    try:
        check_seal(path)
        return pq.read_table(path, columns=columns)
    except FileNotFoundError:
        raise MissingFileError(path) from None
    # pyarrow reports a damaged or an unknown form as one of these.
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        origin = f"It is damaged, or was written by a newer version of pyarrow (this is {pa.__version__})"
        raise DamagedError(path, f"cannot be read: {reason}. {origin}") from None
