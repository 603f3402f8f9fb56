"""The progress of a running training: one line per epoch, in a file beside its checkpoint.

The training never waits for a reader. While it runs it holds a lock on the file, which the kernel releases however the
training ends: a file with neither a final line nor a lock is that of a killed training.
"""

import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

log = logging.getLogger(__name__)

Tell = Callable[[list[dict[str, float]], list[float]], None]
"""Takes the metrics of all epochs so far, and their seconds."""


def silent(metrics: list[dict[str, float]], seconds: list[float]) -> None:
    """Report nothing."""


@contextmanager
def telling(path: Path, about: dict[str, Any]) -> Iterator[Tell]:
    """Yield the function that a training calls after each epoch; leaving the block writes the final line.

    Problems with the file are logged and never stop the training.

    Args:
        path: the file; what an interrupted training left there is overwritten.
        about: what is known at the start of the training.
    """
    try:
        file = _own(path)
    except OSError as error:
        log.warning("%s: nobody can follow this training (%s)", path, error)
        yield silent
        return
    told = 0

    def say(*lines: dict[str, Any]) -> None:
        try:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
            file.flush()
        except OSError as error:
            log.warning("%s: %s", path, error)

    def tell(metrics: list[dict[str, float]], seconds: list[float]) -> None:
        nonlocal told
        rows = list(zip(metrics, seconds, strict=True))[told:]
        say(*({"metrics": row, "seconds": one} for row, one in rows))
        told += len(rows)

    with file:
        say({**about, "host": socket.gethostname()})
        try:
            yield tell
        except Exception as error:
            say({"end": "failed", "why": f"{type(error).__name__}: {error}"})
            raise
        say({"end": "finished"})


def _own(path: Path) -> TextIO:
    """Open a file for this process alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a", encoding="utf-8")
    for wait in (0.05, 0.1, 0.2, None):  # a reader holds the lock briefly, another training for long
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if wait is None:
                file.close()
                raise
            time.sleep(wait)
        except OSError:  # no locks on this file system
            break
    file.truncate(0)
    return file


@dataclass
class Told:
    """What a training has reported so far."""

    about: dict[str, Any]
    metrics: list[dict[str, float]]
    seconds: list[float]
    end: str
    """`finished`, `failed`, `killed`, or empty while it runs."""
    why: str


def read(path: Path, over: bool) -> Told | None:
    """Return what a training has reported; None if it has only just begun.

    Args:
        path: its file.
        over: whether nothing can still be running on another machine, whose locks may not be visible here.
    """
    with path.open(encoding="utf-8") as file:
        held = _held(file)
        lines = [json.loads(line) for line in file.read().splitlines(keepends=True) if line.endswith("\n")]
    if not lines or "end" in lines[0] or "metrics" in lines[0]:
        return None
    about, rows = lines[0], [line for line in lines[1:] if "metrics" in line]
    last = lines[-1]
    elsewhere = about["host"] != socket.gethostname() and not over
    end = last.get("end") or ("" if held or elsewhere else "killed")
    metrics, seconds = [row["metrics"] for row in rows], [row["seconds"] for row in rows]
    return Told(about, metrics, seconds, end, last.get("why", ""))


def _held(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def stamp(path: Path) -> tuple[int, int, bool]:
    """Return a value that changes when a training reports something or ends."""
    with path.open(encoding="utf-8") as file:
        state = os.fstat(file.fileno())
        return state.st_mtime_ns, state.st_size, _held(file)
