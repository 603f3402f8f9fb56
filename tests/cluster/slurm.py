"""A real Slurm of one node, in a folder of its own, without an accounting database."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel")
# Daemons live where a user's PATH may not look.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])

# CPUs and memory as a cluster's node has them, so that the profile is tested as it stands; no memory is reserved.
# The GPU is a stand-in: Slurm grants it, nothing computes on it.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MinJobAge=7200
KillWait=2
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=32000 Gres=gpu:1 State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Say why no Slurm can be started here, if none can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=SEARCH_PATH)]
    if absent:
        return f"Slurm is not installed (no {', '.join(absent)}): apt-get install munge slurm-wlm"
    if os.geteuid() != 0:
        return "Slurm's daemons are started as root here"
    return None


class Slurm:
    """Started by `start`, ended by `stop`; `environment` is what its commands need."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.daemons: list[subprocess.Popen] = []
        self.environment = {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": os.pathsep.join([str(folder / "bin"), SEARCH_PATH]),
        }

    def start(self) -> None:
        folder = self.folder
        for name in ("state", "spool", "bin"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        names = {"host": socket.gethostname().split(".")[0], "folder": folder}
        ports = {"controller_port": free_port(), "node_port": free_port()}
        (folder / "slurm.conf").write_text(CONFIGURATION.format(**names, **ports))
        (folder / "gres.conf").write_text("Name=gpu Count=1 File=/dev/null\n")
        # The executor takes SLURM_CONF from the environment of job steps; elsewhere the file is in /etc.
        srun = folder / "bin" / "srun"
        real = shutil.which("srun", path=SEARCH_PATH)
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {real} "$@"\n')
        srun.chmod(0o755)
        self._daemon(
            "munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}",
            f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed",
        )  # fmt: skip
        wait_until((folder / "munge.socket").exists, "munged", 30)
        self._daemon("slurmctld", "-D")
        self._daemon("slurmd", "-D")
        wait_until(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%T"), "slurmctld and slurmd", 60)

    def stop(self) -> None:
        self.ask("scancel", "--user=root")
        wait_until(lambda: not self.ask("squeue", "--noheader"), "the last job", 30)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def ask(self, *command: str) -> str:
        """Return what a command of Slurm prints, and nothing while the controller does not answer."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | self.environment)
        return done.stdout.strip() if done.returncode == 0 else ""

    def jobs(self) -> list[dict[str, str]]:
        """Return the jobs that Slurm remembers: number, rule with wildcards, state, seconds, node."""
        keys = ("id", "rule", "state", "time", "node")
        lines = self.ask("squeue", "--states=all", "--noheader", "--sort=i", "--format=%i|%k|%T|%M|%N").splitlines()
        return [dict(zip(keys, line.split("|"), strict=True)) for line in lines]

    def has_gpu(self, job: str) -> bool:
        return "TresPerJob=gres:gpu:1" in self.ask("scontrol", "show", "job", job)

    def launched(self) -> set[str]:
        """Return the numbers of the jobs that slurmd says to have started."""
        words = [line.split() for line in (self.folder / "slurmd.log").read_text().splitlines()]
        return {line[line.index("job") + 1] for line in words if line[1:4] == ["Launching", "batch", "job"]}

    def _daemon(self, name: str, *arguments: str) -> None:
        program = shutil.which(name, path=SEARCH_PATH)
        with (self.folder / f"{name}.out").open("w") as out:
            self.daemons.append(
                subprocess.Popen([program, *arguments], stdout=out, stderr=out, env=os.environ | self.environment)
            )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(holds: Callable[[], object], what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not there after {seconds} s")
        time.sleep(0.2)
