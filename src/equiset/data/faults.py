"""What is said of a raw file that cannot be read."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equiset.errors import EquisetError


def fault(path: Path, what: str) -> EquisetError:
    """Return the error that says what is wrong with a file, and the remedy."""
    return EquisetError(f"{path} {what}. Remove the file and fetch it again.")


@contextmanager
def plain_faults(path: Path) -> Iterator[None]:
    """Turn what reading a possibly compressed file may raise into one clear error."""
    try:
        yield
    except EOFError:
        raise fault(path, "is cut off: the compressed data end too early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise fault(path, f"is damaged: {error}") from None
    except OSError as error:
        raise EquisetError(f"{path} cannot be read: {error.strerror or error}") from None
