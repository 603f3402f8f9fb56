"""Which GPUs a job uses. Torch is not imported: it is asked before torch starts, and by the Snakefile.

A card belongs to a job by a lock of the kernel, which is given back when the process ends, however it ends. Locks lie
in one folder for all projects of a user on this machine. A scheduler such as Slurm says by CUDA_VISIBLE_DEVICES which
cards are its job's; a job chooses among those alone, and its locks are of that scheduler's job.
"""

import fcntl
import importlib.util
import logging
import os
import re
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

from equiset.errors import EquisetError
from equiset.training.provenance import output

log = logging.getLogger(__name__)

SHARING = "EQUISET_JOBS_PER_CARD"
_SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "FLUX_JOB_ID")
_PAUSE_S = 1.0
_held: list[BinaryIO] = []  # open until the process ends


def cards() -> list[str]:
    """Return the cards that a job of this process may use, by the names that CUDA_VISIBLE_DEVICES takes.

    It is that variable's list if there is one. Else the device files of NVIDIA's driver are counted, or, where there
    are none (as on Windows with Linux inside), the lines of `nvidia-smi -L`. With a torch that was built without CUDA
    there are none.
    """
    if not _torch_has_cuda():
        return []
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        names = [name.strip() for name in visible.split(",")]
        # CUDA ignores what follows a name that stands for no card.
        end = next((at for at, name in enumerate(names) if name in ("", "-1", "NoDevFiles")), len(names))
        return names[:end]
    files = [path for path in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    listed = files or re.findall("^GPU ", output("nvidia-smi", "-L") or "", re.MULTILINE)
    return [str(number) for number in range(len(listed))]


def device_of(name: str) -> str:
    """Return where the config's `device` leads on this machine: `cpu` or `cuda`."""
    return ("cuda" if cards() else "cpu") if name == "auto" else name


def take_cards(device: str, number: int = 1) -> None:
    """Take free cards for this process, wait until there are some, and let CUDA see these alone.

    Args:
        device: the config's; nothing happens for `cpu`, or if there is no card.
        number: how many.
    """
    choice = [] if device == "cpu" else cards()
    if not choice:
        return
    if number > len(choice):
        raise EquisetError(f"config key 'processes' is {number}, but there are only {len(choice)} GPUs for them")
    folder = Path(tempfile.gettempdir()) / f"equiset-cards-{os.getuid()}" / _scheduler()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    sharing, waited = int(os.environ.get(SHARING) or 1), False
    while len(taken := _take(folder, choice, number, sharing)) < number:
        if not waited:
            log.info("waiting for %d of the GPUs %s: other jobs have them", number, ", ".join(choice))
        waited = True
        time.sleep(_PAUSE_S)
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(taken)
    log.info("on GPU %s", ", ".join(taken))


def _take(folder: Path, choice: list[str], number: int, sharing: int) -> list[str]:
    """Lock up to so many cards, none twice; fewer than asked for are given back at once."""
    taken: dict[str, BinaryIO] = {}
    for place in range(sharing):  # a card gets its second job when every card has one
        for card in choice:
            if card not in taken and len(taken) < number:
                file = (folder / f"{re.sub(r'[^A-Za-z0-9-]', '_', card)}.{place}").open("a+b")
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    taken[card] = file
                except BlockingIOError:
                    file.close()
                except OSError as error:
                    message = f"no file can be locked in {folder} ({error}); set TMPDIR to a local folder"
                    raise EquisetError(message) from None
    if len(taken) < number:
        for file in taken.values():
            file.close()
        return []
    _held.extend(taken.values())
    return sorted(taken, key=choice.index)


def _scheduler() -> str:
    """Return what tells a scheduler's jobs on one machine apart: each counts its own cards from 0."""
    found = next((f"{name}-{os.environ[name]}" for name in _SCHEDULERS if os.environ.get(name)), "machine")
    return re.sub(r"[^A-Za-z0-9-]", "_", found)


def _torch_has_cuda() -> bool:
    """Say whether torch was built for CUDA, by its file of versions: importing it takes seconds."""
    versions = Path(importlib.util.find_spec("torch").origin).with_name("version.py").read_text(encoding="utf-8")
    return re.search(r"^cuda\b[^=]*= *None", versions, re.MULTILINE) is None
