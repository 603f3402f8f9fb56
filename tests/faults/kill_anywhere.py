"""Kill the workflow again and again, and see whether it ends with the files of a run that nobody touched.

`python -m tests.faults.kill_anywhere [--kills 30] [--seed 0] [--folder F]`. A run of all four experiments at scale
`smoke` is killed with SIGKILL, all its processes at once, at moments that a seed decides, and started again by the same
command every time, after `snakemake --unlock`. The moments are counted in processor time, so that a busy machine
changes nothing. A run that ends before all kills are spent is compared, and the next one begins in a new folder. With a
folder in which this was begun before, the untouched run is taken from there.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.faults.comparison import contents, differences
from tests.workflow.conftest import Project

# Everything but a second variant and seed of the sums of digits, which add time and no new kind of job.
SMALLER = "experiments={mnist_sums: {seeds: [0], run: [IV-N3]}}"
LONGEST_S = 20.0  # of processor time between start and kill: reading the workflow takes a fifth of it
PATIENCE_S = 4 * 3600.0  # then it hangs; a busy machine is only slow


def project_in(folder: Path) -> Project:
    """Return a copy of the project, new or as it was left."""
    return Project.found(folder) if folder.exists() else Project(folder)


def command(cores: int) -> list[str]:
    return [sys.executable, "-m", "snakemake", "--cores", str(cores), "--config", "scale=smoke", SMALLER]


def start(project: Project, log: Path, cores: int) -> subprocess.Popen:
    """Start the workflow as the leader of a process group of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    with log.open("ab") as output:
        return subprocess.Popen(
            command(cores),
            cwd=project.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )


def unlock(project: Project) -> None:
    """Remove the lock that a killed Snakemake leaves."""
    subprocess.run([*command(1), "--unlock"], cwd=project.folder, check=True, capture_output=True)


def processor_time(group: int) -> float:
    """Return the seconds that the living processes of a group, and the dead that they have waited for, have worked."""
    total = 0.0
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group:
                total += sum(process.cpu_times()[:4])
        except (psutil.Error, ProcessLookupError):
            continue
    return total


def finish_or_kill(process: subprocess.Popen, after_s: float) -> int | None:
    """Return the exit code, or None if the processes were killed after so much processor time."""
    deadline = time.monotonic() + PATIENCE_S
    while (code := process.poll()) is None:
        if time.monotonic() > deadline or processor_time(process.pid) >= after_s:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert time.monotonic() < deadline, "the workflow hangs"
            return None
        time.sleep(0.05)
    return code


def kill_anywhere(folder: Path, kills: int, seed: int, cores: int = 2) -> str:
    """Return what happened in one line; raise if a run failed or ended with other files."""
    moments = random.Random(seed)
    log = folder / "log.txt"

    def failed(what: str) -> AssertionError:
        return AssertionError(f"{what}; see {log}\n" + log.read_text(errors="replace")[-3000:])

    whole = project_in(folder / "whole")
    if finish_or_kill(start(whole, log, cores), float("inf")) != 0:
        raise failed("the run that nobody kills has failed")
    expected = contents(whole.folder / "results" / "smoke")
    spent, runs = 0, len(list(folder.glob("killed*")))
    while spent < kills:
        project = project_in(folder / f"killed{runs}")
        runs += 1
        while True:
            # Another number of cores, too: it changes the order of the jobs and the processes that prepare data.
            after_s = moments.uniform(1, LONGEST_S) if spent < kills else float("inf")
            code = finish_or_kill(start(project, log, cores + runs % 2), after_s)
            if code is None:
                spent += 1
                unlock(project)
                print(f"kill {spent} of {kills}, after {after_s:.1f} s of work in run {runs}", flush=True)
            elif code == 0:
                break
            else:
                raise failed(f"after {spent} kills a restart failed")
        found = contents(project.folder / "results" / "smoke")
        if wrong := differences(expected, found):
            raise failed(f"after {spent} kills these files differ: {wrong}")
        if rest := [str(path) for path in (project.folder / "results").rglob("*.partial")]:
            raise failed(f"half-written files stayed: {rest}")
    return f"{spent} of {kills} recovered, files identical ({len(expected)} files, runs: {runs})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kill_anywhere")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="a folder to work in, which stays")
    options = parser.parse_args()
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        print(kill_anywhere(options.folder, options.kills, options.seed))
        return
    with tempfile.TemporaryDirectory(prefix="equiset-kills-") as folder:
        print(kill_anywhere(Path(folder), options.kills, options.seed))


if __name__ == "__main__":
    main()
