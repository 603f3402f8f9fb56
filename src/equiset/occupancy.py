"""Whether a run is active in a project's folder. Locks left by a killed run are released automatically.

Snakemake's own lock is a file that stays behind when its process is killed. The lock here is held by the kernel, which
releases it when the last process that holds it ends: the run itself and each of its jobs. A run that finds it free
knows that any Snakemake locks in the folder are stale. On file systems without such locks, nothing changes.
"""

import fcntl
import logging
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger(__name__)

_STATE = Path(".snakemake")
_held: list[BinaryIO] = []  # open until the process ends


def begin_run(folder: Path = Path()) -> str | None:
    """Hold the folder for a run of Snakemake and remove stale locks; return a notice if another run is active there.

    Two runs at once remain possible where Snakemake allows them: if they make different files.
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
        "Another run, or a job left over from a killed one, is active in this folder. If Snakemake reports that the "
        "folder is locked, wait for it or end it; the lock is then released automatically"
    )


def begin_job(folder: Path = Path()) -> None:
    """Hold the folder together with the run that started this process, and beyond if this process outlives it."""
    if file := _open(folder, create=False):
        _lock(file, fcntl.LOCK_SH)


def _open(folder: Path, create: bool) -> BinaryIO | None:
    path = folder / _STATE / "occupied"
    try:
        if create:
            path.parent.mkdir(exist_ok=True)
        file = path.open("a+b" if create else "r+b")
    except OSError:  # Snakemake never ran here, or the folder is read-only
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
