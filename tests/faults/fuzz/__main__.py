"""Fuzz one of our readers, or all: `python -m tests.faults.fuzz [target ...] [--seconds 600]`.

Needs atheris (`pip install atheris`), which is not in the lock: nothing else does. Inputs that break a promise go to
tests/faults/fuzz/found/<target>/, where the tests find them, and the fuzzing goes on.
"""

import argparse
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
# For inputs of at most LONGEST bytes: an honest file of that size takes a millisecond and no memory to speak of.
LONGEST, SLOWEST_S, MOST_MB = 4096, 5, 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fuzz")
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=600, help="of processor time, for each target")
    parser.add_argument("--found", type=Path, default=HERE / "found")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options, passed_on = parser.parse_known_args()
    if options.child:
        fuzz(options.targets[0], options.child, options.found, options.seconds, passed_on)
    from .targets import TARGETS

    return max(drive(name, options.seconds, options.found) for name in options.targets or TARGETS)


def drive(name: str, seconds: int, found: Path) -> int:
    """Fuzz for some seconds, starting again if an input takes the process down; return 1 if anything was found."""
    from .targets import TARGETS

    target, found = TARGETS[name], found / name
    found.mkdir(parents=True, exist_ok=True)
    known = set(found.iterdir())
    with tempfile.TemporaryDirectory(prefix="equiset-fuzz-") as folder:
        work = Path(folder)
        corpus = work / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(target.seeds()):
            (corpus / f"seed{number}").write_bytes(seed)
        words = ('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in target.words)
        (work / "words").write_text("".join(words))
        (work / "count").write_bytes(bytes(16))
        while (left := seconds - _spent(work)[1]) > 1:
            command = [sys.executable, "-m", "tests.faults.fuzz", name, "--child", str(work), "--found", str(found)]
            command += ["--seconds", f"{left:.0f}", f"-max_len={LONGEST}", f"-timeout={SLOWEST_S}"]
            command += [f"-rss_limit_mb={MOST_MB}", f"-dict={work / 'words'}", f"-artifact_prefix={work}/", str(corpus)]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            fatal = [path for kind in ("timeout", "oom", "crash") for path in work.glob(f"{kind}-*")]
            for path in fatal:
                shutil.move(path, found / path.name[:24])
            if done.returncode and not fatal:
                sys.exit(done.stderr[-2000:])
        executions, spent = _spent(work)
        inputs = len(list(corpus.iterdir()))
    new = sorted(path.name for path in set(found.iterdir()) - known)
    print(
        f"{name}: {executions} executions in {spent:.0f} s of processor time, {inputs} inputs in the corpus, "
        f"{len(new)} found{': ' + ', '.join(new) if new else ''}",
        flush=True,
    )
    return int(bool(new))


def _spent(work: Path) -> tuple[int, float]:
    """Return how many inputs were tried so far, and the seconds of processor time that it took."""
    executions, milliseconds = struct.unpack("<QQ", (work / "count").read_bytes())
    return executions, milliseconds / 1000


def fuzz(name: str, work: Path, found: Path, seconds: int, arguments: list[str]) -> None:
    """Run libFuzzer in this process; it never returns."""
    import atheris

    with atheris.instrument_imports(include=["equiset"]):
        from .targets import TARGETS
    check = TARGETS[name].check
    executions, before = _spent(work)
    started = time.process_time()
    with (work / "count").open("r+b") as file:
        counter = mmap.mmap(file.fileno(), 16)  # outlives whatever an input does to this process

    def one_input(content: bytes) -> None:
        nonlocal executions
        executions += 1
        spent = time.process_time() - started
        counter[:] = struct.pack("<QQ", executions, int(1000 * (before + spent)))
        if spent > seconds:
            os._exit(0)
        try:
            check(content)
        except Exception as error:
            # One file for each place in the code, so that the fuzzer goes on to find others.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            path = found / f"{type(error).__name__}-{Path(frame.filename).stem}-{frame.lineno}"
            if not path.exists() or len(content) < path.stat().st_size:
                path.write_bytes(content)

    atheris.Setup([sys.argv[0], *arguments], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
