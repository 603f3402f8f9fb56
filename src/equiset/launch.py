"""Starts the processes that train one network together and connects them. The rest is in `parallel`."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from equiset.errors import EquisetError
from equiset.parallel import is_first, set_share


def started() -> bool:
    """Say whether `torchrun` started this process as one of several."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(processes: int, program: str, arguments: list[str]) -> None:
    """Run a module or a file in several processes on this machine by `torchrun`. If one of them dies, all do."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if any(name == "lo" for _, name in socket.if_nameindex()):
        # All of them run on this machine, whatever its name resolves to.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    options = ["--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={processes}"]
    try:
        run(parse_args([*options, *([] if program.endswith(".py") else ["-m"]), program, *arguments]))
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        code = failure.exitcode
        end = f"was killed by signal {-code}" if code < 0 else f"failed with exit code {code}"
        raise EquisetError(
            f"process {rank} of {processes} {end}, and the others were stopped; what it said is above. "
            "Run again to go on from the last checkpoint; if memory ran out, use fewer processes"
        ) from None
    except SignalException as error:
        raise EquisetError(f"stopped by signal {error.sigval}. Run again to go on from the last checkpoint") from None


@contextmanager
def joined(device: torch.device) -> Iterator[torch.device]:
    """Join the other processes, if there are any, and yield this one's device."""
    if not started():
        yield device
        return
    local, local_processes = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if device.type == "cuda":
        if local_processes > torch.cuda.device_count():
            raise EquisetError(
                f"config key 'processes' is {local_processes}, but torch sees {torch.cuda.device_count()} CUDA devices"
            )
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    if not is_first():  # one process logs for all
        logging.getLogger().setLevel(logging.ERROR)
    try:
        yield device
    finally:
        set_share(None)
        dist.destroy_process_group()
