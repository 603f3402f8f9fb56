"""Which GPU a job gets, with a stand-in for four: none is shared unless it is to be, and a killed job frees its own."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from equiset import placement

FOUR = ["0", "1", "2", "3"]
# A job: it takes cards, says which, works until it is told to end, or for a while.
JOB = """
import os, sys, time
from equiset import placement
placement._torch_has_cuda, placement._PAUSE_S = (lambda: True), 0.02
placement.take_cards("auto", int(sys.argv[1]))
began = time.monotonic()
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
time.sleep(float(sys.argv[2])) if len(sys.argv) > 2 else sys.stdin.read()
print(began, time.monotonic(), "torch" in sys.modules)
"""


@pytest.fixture
def start(tmp_path):
    """Start jobs on the machine with four cards."""
    jobs = []
    inherited = {name: value for name, value in os.environ.items() if name not in placement._SCHEDULERS}

    def start(*arguments, **environment):
        variables = inherited | {"TMPDIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ",".join(FOUR)} | environment
        command = [sys.executable, "-c", JOB, *map(str, arguments or (1,))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        jobs.append(subprocess.Popen(command, env=variables, **pipes))
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()
        job.communicate()


def card_of(job):
    return job.stdout.readline().strip()


def test_four_jobs_have_four_cards_and_a_killed_one_frees_its_own(start):
    jobs = [start() for _ in FOUR]
    had = [card_of(job) for job in jobs]
    assert sorted(had) == FOUR
    waiting = start()
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.5)
    jobs[2].kill()
    assert card_of(waiting) == had[2]


def test_eight_jobs_are_never_two_on_one_card(start):
    jobs = [start(1, 0.2) for _ in range(8)]
    spans = {card: [] for card in FOUR}
    for job in jobs:
        card = card_of(job)
        began, ended, imported_torch = job.stdout.read().split()
        spans[card].append((float(began), float(ended)))
        assert imported_torch == "False"
    for on_one in spans.values():
        on_one.sort()
        assert all(first[1] <= second[0] for first, second in pairwise(on_one))


def test_more_may_share_a_card_and_one_job_may_have_several(start):
    first = [start(EQUISET_JOBS_PER_CARD="2") for _ in range(5)]
    assert set(map(card_of, first)) == set(FOUR)  # the fifth is the second on one of them
    for job in first:
        job.kill()
        job.wait()
    both = [start(2), start(2)]
    cards = [card_of(job).split(",") for job in both]
    assert sorted(cards[0] + cards[1]) == FOUR


def test_a_schedulers_choice_stands(start):
    """Two jobs of Slurm on one node: each sees its own card as number 0."""
    jobs = [start(CUDA_VISIBLE_DEVICES="0", SLURM_JOB_ID=str(number)) for number in (7, 8)]
    assert [card_of(job) for job in jobs] == ["0", "0"]
    assert card_of(start(CUDA_VISIBLE_DEVICES="GPU-8b1c", SLURM_JOB_ID="9")) == "GPU-8b1c"


@pytest.mark.parametrize(
    ("visible", "expected"), [("0,1", ["0", "1"]), ("", []), ("-1", []), ("2,-1,3", ["2"]), ("MIG-a", ["MIG-a"])]
)
def test_the_cards_are_those_that_cuda_would_see(monkeypatch, visible, expected):
    monkeypatch.setattr(placement, "_torch_has_cuda", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert placement.cards() == expected
    assert placement.device_of("auto") == ("cuda" if expected else "cpu")
    assert placement.device_of("cpu") == "cpu"
    assert placement.device_of("cuda") == "cuda"


def test_a_torch_without_cuda_has_no_cards(monkeypatch, tmp_path):
    """Else jobs would wait for cards that they cannot use."""
    (tmp_path / "torch").mkdir()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for line, expected in (("cuda: Optional[str] = None", []), ("cuda: Optional[str] = '12.8'", ["0"])):
        (tmp_path / "torch" / "version.py").write_text(f"from typing import Optional\n{line}\n")
        spec = type("Spec", (), {"origin": str(tmp_path / "torch" / "__init__.py")})
        monkeypatch.setattr(placement.importlib.util, "find_spec", lambda name, spec=spec: spec)
        assert placement.cards() == expected


def test_cards_without_the_variable_are_counted(monkeypatch, tmp_path):
    monkeypatch.setattr(placement, "_torch_has_cuda", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: A (UUID: GPU-1)'\necho 'GPU 1: A (UUID: GPU-2)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        assert placement.cards() == ["0", "1"]


def test_too_many_processes_are_refused_and_a_cpu_takes_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(placement, "_torch_has_cuda", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    placement.take_cards("cpu", 5)
    with pytest.raises(placement.EquisetError, match="'processes' is 2, but there are only 1 GPUs"):
        placement.take_cards("auto", 2)


def test_the_workspace_of_cublas_is_fixed_before_torch_loads():
    code = "import equiset.stages, os, sys; print(os.environ['CUBLAS_WORKSPACE_CONFIG'], 'torch' in sys.modules)"
    inherited = {name: value for name, value in os.environ.items() if name != "CUBLAS_WORKSPACE_CONFIG"}
    done = subprocess.run([sys.executable, "-c", code], env=inherited, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [":4096:8", "False"]
