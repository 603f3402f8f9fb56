"""The one exception that means: something outside the code is wrong, and the message says what to do."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")


class EquisetError(Exception):
    """A fault that the user can fix. The message names the file or the key, and the remedy.

    Jobs print it as a single line; a traceback means a bug in equiset.
    """


class MissingFileError(EquisetError):
    """A file or folder of the workflow's own is not there."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not there. Run snakemake again: it makes what is missing")
        self.path = path


def choose(options: Mapping[str, Value], name: str, what: str) -> Value:
    """Return one of several things by its name, or say which there are."""
    if name not in options:
        raise EquisetError(f"there is no {what} {name!r}; there are: {', '.join(options) or 'none'}")
    return options[name]


@contextmanager
def one_line_errors(log: str | Path | None = None) -> Iterator[None]:
    """Run a program's work: log lines go to stderr, or with all else that is printed there into a file.

    An error that the user can fix is one line; any other leaves its traceback. Either way the program ends with 1.
    Ctrl-C is one line as well, and the program ends with 130, as shells expect.

    Args:
        log: the file.
    """
    if log:
        # The descriptor itself, so that what other libraries and processes print is caught as well.
        with open(log, "ab", buffering=0) as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S")
    started = time.process_time()
    try:
        yield
    except EquisetError as error:
        logging.error("%s", error)
        sys.exit(1)
    except OSError as error:  # a file that is missing, or cannot be read or written
        logging.error("%s: %s", error.filename or "a file", error.strerror or error)
        sys.exit(1)
    except KeyboardInterrupt:
        logging.error("interrupted. The same command goes on from what is finished")
        sys.exit(130)
    except Exception:
        logging.exception("this is a bug in equiset")
        sys.exit(1)
    # benchmarks/demo_times.py adds these up.
    logging.info("started in %.2f s, done after %.2f s of processor time", started, time.process_time())
