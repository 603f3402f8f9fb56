"""What the tests of downloads share: a file, its checksums, and a call that gives up soon."""

import hashlib
from pathlib import Path

import numpy as np

from equiset.data.download import download

CONTENT = np.random.default_rng(0).bytes(300_000)
CHECKSUMS = {"sha256": hashlib.sha256(CONTENT).hexdigest(), "md5": hashlib.md5(CONTENT).hexdigest()}


def get(urls: str | list[str], target: Path, **options) -> str:
    options = {"checksums": CHECKSUMS, "timeout_s": 5.0, "attempts": 3} | options
    return download("data.bin", [urls] if isinstance(urls, str) else urls, target, **options)


def left_behind(target: Path) -> set[str]:
    """What is in the folder, except for the lock, which carries nothing."""
    return {path.name for path in target.parent.iterdir()} - {"data.bin.lock"}
