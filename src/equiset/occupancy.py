"""Who is at work in a project's folder. What a killed run left locked is free again by itself.

Snakemake's own lock is a file that stays behind when its process is killed. The one here belongs to the kernel, which
gives it back with the last process that holds it: the run itself and each of its jobs. Whoever finds it free knows that
all locks of Snakemake in the folder are left over. Where the file system has no such locks, nothing changes.
"""

import fcntl
import logging
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger(__name__)

_STATE = Path(".snakemake")
_held: list[BinaryIO] = []  # open until the process ends


def begin_run(folder: Path = Path()) -> str | None:
    """Hold the folder for a run of Snakemake and remove locks whose owners are gone; say if somebody is at work there.

    Two runs at once stay possible as far as Snakemake allows them: if they make different files.
    """
    file = _open(folder, create=True)
    if file is None:
        return None
    leftovers = folder / _STATE / "locks"
    if alone := _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
        for path in leftovers.glob("*.lock"):
            path.unlink(missing_ok=True)
    _lock(file, fcntl.LOCK_SH)
    if alone or not any(leftovers.glob("*.lock")):
        return None
    return (
        "Another run, or a job that a killed one left behind, is at work in this folder. If Snakemake says that the "
        "folder is locked, wait for it or end it; the lock then goes by itself"
    )


def begin_job(folder: Path = Path()) -> None:
    """Hold the folder, together with the run that started this process and perhaps longer than that one lives."""
    if file := _open(folder, create=False):
        _lock(file, fcntl.LOCK_SH)


def _open(folder: Path, create: bool) -> BinaryIO | None:
    path = folder / _STATE / "occupied"
    try:
        if create:
            path.parent.mkdir(exist_ok=True)
        file = path.open("a+b" if create else "r+b")
    except OSError:  # no run of Snakemake has been here, or the folder can only be read
        return None
    _held.append(file)
    return file


def _lock(file: BinaryIO, kind: int) -> bool:
    try:
        fcntl.flock(file, kind)
    except OSError as error:
        if not isinstance(error, BlockingIOError):
            log.debug("no locks on this file system: %s", error)
        return False
    return True
