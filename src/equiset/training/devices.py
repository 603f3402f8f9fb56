"""Where networks compute, and in what arithmetic: the same for training, evaluation and analyses."""

import fcntl
import logging
import os
import platform
import tempfile
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch

from equiset.errors import EquisetError
from equiset.training.provenance import gpu_driver

log = logging.getLogger(__name__)


def choose_device(name: str) -> torch.device:
    """Turn the config's `device` into a torch device. Of several GPUs it is one that no other job has taken."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise EquisetError("config key 'device' is 'cuda', but torch sees no CUDA device; use 'auto' or 'cpu'")
    torch.cuda.set_device(_free_gpu(torch.cuda.device_count()))
    return torch.device("cuda")


@cache  # a process stays where it is, however often it asks
def _free_gpu(count: int) -> int:
    """Return the first GPU that can be locked. If all are taken, jobs were allowed to share them."""
    for number in range(count if count > 1 else 0):
        # By its own name: a scheduler's jobs each count their GPUs from 0. Nobody may open the files of other users.
        name = f"equiset-gpu-{os.getuid()}-{torch.cuda.get_device_properties(number).uuid}"
        lock = os.open(Path(tempfile.gettempdir(), name), os.O_CREAT | os.O_RDWR)  # held until the process ends
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number
        os.close(lock)
    return os.getpid() % count


def fix_arithmetic(precision: str, device: torch.device) -> None:
    """Let this process compute with the digits that the config asks for, and the same bits every time.

    An operation that cannot give the same bits raises an error. By default cuDNN would round the inputs of
    convolutions to TF32, 10 binary digits, and cuBLAS those of products would not: here both do or neither does.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # or cuBLAS would not give the same bits
    torch.use_deterministic_algorithms(True)
    # New memory would be filled with NaN, to show who reads it before it is written: up to a seventh of the time.
    torch.utils.deterministic.fill_uninitialized_memory = False
    # Torch itself still reads the old flags, and raises an error where the new ones say something else.
    for part in (torch.backends.cuda.matmul, torch.backends.cudnn):
        part.allow_tf32 = precision == "tf32"
    for part in (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn):
        part.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    if device.type == "cpu":
        if precision == "tf32":
            log.warning("a CPU has no TF32 arithmetic: this is float32")
        if precision == "bfloat16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            log.warning("this CPU has no bfloat16 arithmetic: expect many times the time of float32")


def arithmetic(precision: str, device: torch.device) -> AbstractContextManager:
    """Return the context in which the network computes."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()


def describe(device: torch.device) -> dict[str, Any]:
    """Return what `run.json` says of the device: for a GPU, also what bits depend on, and what was taken of it."""
    if device.type != "cuda":
        return {"device": f"{device.type} ({platform.machine()})"}
    return {
        "device": torch.cuda.get_device_name(device),
        "gpu": {
            "driver": gpu_driver(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "tf32": torch.backends.cuda.matmul.fp32_precision == "tf32",
            "peak_memory_mb": round(torch.cuda.max_memory_allocated(device) / 2**20, 1),
        },
    }
