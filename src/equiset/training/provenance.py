"""Where a number comes from: the code, the packages, the machine."""

import os
import platform
import resource
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("equiset", "torch", "numpy", "pandas", "pyarrow", "scikit-learn", "snakemake", "mlflow", "matplotlib")


def git_commit() -> str | None:
    """Return the commit of the code that runs, marked `-dirty` if it was changed since; None outside git."""
    git = ("git", "-C", str(Path(__file__).parent))
    commit = output(*git, "rev-parse", "HEAD")
    changed = output(*git, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return None if commit is None or changed is None else commit + ("-dirty" if changed else "")


def output(*command: str) -> str | None:
    """Return what another program prints; None if it is not there or fails."""
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that shape a result."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Return what floating-point results may depend on besides the code."""
    return {"platform": platform.platform(), "processor": _processor(), "cores": os.cpu_count()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def peak_memory_mb() -> float:
    """Return the largest resident size that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def gpu_driver() -> str | None:
    """Return the version of NVIDIA's driver; None if it does not say."""
    return next(iter((output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") or "").split()), None)


def has_gpu() -> bool:
    """Say whether this machine has an NVIDIA GPU, without importing torch."""
    return any(Path("/dev").glob("nvidia[0-9]*"))
