"""One instrument for all benchmarks: several forms of the same work, each in a process of its own, take turns.

Time and peak memory belong to a process, and so does the allocator; that the forms take turns lets whatever else the
machine does fall on all of them alike. Speed is therefore given as a ratio, the median of the ratios of all rounds.
Everything runs on one thread and is counted in processor time unless a benchmark says otherwise.
"""

import argparse
import ctypes
import gc
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from equiset.results.figures import Canvas, Figure
from equiset.results.palette import BLUE, GREEN, VERMILION
from equiset.results.tables import Table
from equiset.training import provenance

Step = Callable[[], Any]
Clock = Literal["processor", "wall"]
# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> bool:
    """Ask glibc to keep freed memory in this process, as it does in the jobs of the workflow; return whether it did."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    largest, never = 2**31 - 1, -1
    return bool(mallopt(_M_MMAP_THRESHOLD, largest)) and bool(mallopt(_M_TRIM_THRESHOLD, never))


@dataclass(frozen=True)
class Form:
    """One way to do the work of a benchmark."""

    name: str
    make: Callable[[Path], Step]
    """Prepares, in a process of its own, and returns what is timed. It is given the benchmark's folder."""
    kept: bool = False
    """Whether the process keeps freed memory, as the jobs of the workflow do; else the allocator is as it comes."""
    limit: bool = False
    """The bare matrix products of the work: how fast this machine could do it at most, if all of it were done."""


@dataclass(frozen=True)
class Benchmark:
    name: str
    forms: tuple[Form, ...]
    """Ours first, then the rival, then others."""
    bar: float | None = None
    """How many times faster than the rival ours is meant to be."""
    memory_bar: float | None = None
    """How many times less memory it is meant to take."""
    rounds: int = 5
    clock: Clock = "processor"
    warm: bool = True
    """Whether every form takes a step before the first that counts."""
    memory: bool = True
    """Whether the memory of the process says something about the work."""
    prepare: Callable[[Path], None] | None = None
    """Fills the folder that the forms share."""
    note: str = ""


def _status(field: str) -> float:
    """Return the MiB that this process holds (VmRSS), or at most held (VmHWM)."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def _processor_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # processes that a step started
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _message(pipe: Connection) -> str:
    """Wait for a message, as long as the process that sends them lives."""
    parent = os.getppid()
    while not pipe.poll(5):
        if os.getppid() != parent:
            return "end"
    return pipe.recv()


def _serve(pipe: Connection, form: Form, folder: Path) -> None:
    """Take a step for every message; answer with seconds by both clocks, and MiB above what was held before."""
    try:
        import torch  # here, since the processes of a step that needs no torch import this module as well

        torch.set_num_threads(1)
        torch.manual_seed(0)
        if form.kept:
            keep_freed_memory()
        step = form.make(folder)
        gc.collect()
        if sys.platform == "linux":
            # Free memory that came along from the process before would hide what a step takes.
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts from now
        held = _status("VmRSS")
        pipe.send("ready")
        while _message(pipe) == "step":
            gc.collect()
            wall, processor = time.perf_counter(), _processor_seconds()
            step()
            taken = {"processor": _processor_seconds() - processor, "wall": time.perf_counter() - wall}
            pipe.send(taken | {"mib": max(_status("VmHWM") - held, 0)})
    except Exception as error:  # whatever it is, the other benchmarks go on
        pipe.send(f"{type(error).__name__}: {error}")


class _Worker:
    # The forms are closures, which only a forked process has.
    context = multiprocessing.get_context("fork")

    def __init__(self, target: Callable[..., None], *arguments: Any):
        self.pipe, other = self.context.Pipe()
        self.process = self.context.Process(target=target, args=(other, *arguments))
        self.process.start()
        other.close()

    def ask(self, message: str | None = None) -> Any:
        if message:
            self.pipe.send(message)
        try:
            answer = self.pipe.recv()
        except EOFError:
            raise RuntimeError(f"the process ended with code {self.process.exitcode}") from None
        if isinstance(answer, str) and answer != "ready":
            raise RuntimeError(answer)
        return answer

    def end(self) -> None:
        if self.process.is_alive():
            try:
                self.pipe.send("end")
            except OSError:
                self.process.terminate()
        self.process.join()


def _prepare(pipe: Connection, prepare: Callable[[Path], None], folder: Path) -> None:
    try:
        prepare(folder)
        pipe.send("ready")
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


def run(benchmark: Benchmark) -> list[dict[str, Any]]:
    """Measure a benchmark, and return one row for each form."""
    workers: dict[str, _Worker] = {}
    with tempfile.TemporaryDirectory() as name:
        try:
            if benchmark.prepare:
                preparation = _Worker(_prepare, benchmark.prepare, Path(name))
                try:
                    preparation.ask()
                finally:
                    preparation.end()
            for form in benchmark.forms:
                workers[form.name] = _Worker(_serve, form, Path(name))
                workers[form.name].ask()
            if benchmark.warm:
                for worker in workers.values():
                    worker.ask("step")
            rounds = [{form: worker.ask("step") for form, worker in workers.items()} for _ in range(benchmark.rounds)]
        finally:
            for worker in workers.values():
                worker.end()
    return [_row(benchmark, number, form, rounds) for number, form in enumerate(benchmark.forms)]


def _row(benchmark: Benchmark, number: int, form: Form, rounds: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    ours = benchmark.forms[0].name
    seconds = [taken[form.name][benchmark.clock] for taken in rounds]
    faster = statistics.median(
        t / max(taken[ours][benchmark.clock], 1e-9) for t, taken in zip(seconds, rounds, strict=True)
    )
    mib = {name: max(taken[name]["mib"] for taken in rounds) for name in (ours, form.name)}
    less = mib[form.name] / max(mib[ours], 0.1)
    role = "ours" if number == 0 else "limit" if form.limit else "rival" if number == 1 else "other"
    bar, memory_bar = (benchmark.bar, benchmark.memory_bar) if role == "rival" else (None, None)
    met = None
    if bar or memory_bar:
        met = (bar is None or faster >= bar) and (memory_bar is None or less >= memory_bar)
    return {
        "benchmark": benchmark.name,
        "form": form.name,
        "role": role,
        "clock": benchmark.clock,
        "rounds": len(rounds),
        "median_seconds": statistics.median(seconds),
        "least_seconds": min(seconds),
        "most_seconds": max(seconds),
        "times_faster": faster,
        "peak_mib": mib[form.name] if benchmark.memory else float("nan"),
        "times_less_memory": less if benchmark.memory and role != "limit" else float("nan"),
        "bar": bar,
        "memory_bar": memory_bar,
        "met": met,
        "note": benchmark.note if role == "ours" else "",
    }


def run_all(benchmarks: Iterable[Benchmark]) -> tuple[pd.DataFrame, list[str]]:
    """Measure all, saying how far it is; a benchmark that fails is named, and the others go on."""
    rows, failures = [], []
    benchmarks = list(benchmarks)
    for number, benchmark in enumerate(benchmarks, start=1):
        print(f"[{number}/{len(benchmarks)}] {benchmark.name} ...", end=" ", flush=True)
        started = time.perf_counter()
        try:
            rows += run(benchmark)
        except RuntimeError as error:
            failures.append(f"{benchmark.name}: {error}")
            print(f"FAILED: {error}", flush=True)
            continue
        rivals = [row for row in rows if row["benchmark"] == benchmark.name and row["role"] != "ours"]
        said = "; ".join(f"{row['times_faster']:.2f} x {row['form']}" for row in rivals)
        print(f"{said} ({time.perf_counter() - started:.0f} s)", flush=True)
    return pd.DataFrame(rows), failures


def with_earlier(measured: pd.DataFrame, earlier: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return rows for `names`, in that order; what was not measured now is as an earlier run left it."""
    earlier = earlier.assign(note=earlier["note"].astype(object).fillna(""))  # CSV has no empty text
    kept = earlier[~earlier["benchmark"].isin(measured["benchmark"])]
    rows = {name: [part[part["benchmark"] == name] for part in (measured, kept)] for name in names}
    return pd.concat([part for parts in rows.values() for part in parts if len(part)], ignore_index=True)


def about() -> str:
    import torch

    machine = provenance.machine()
    return f"{machine['processor']}, {machine['cores']} cores, torch {torch.__version__}, AVX-512 " + (
        "used" if "AVX512" in torch.backends.cpu.get_cpu_capability() else "not used"
    )


def write(measured: pd.DataFrame, failures: list[str], folder: Path) -> None:
    """Write bench.csv, bench.md and bench.png."""
    notes = (
        f"{about()}. One thread. Median of the rounds with the least and the most; processor time unless said "
        "otherwise. Memory is what a process took at most beyond what it held before its first step.",
        "“Ours is faster” is the median ratio of the rounds. For bare matrix products it is the share of the machine's "
        "speed that ours reaches; more than 1 means that ours does less arithmetic than the plain formula asks for.",
        *(f"{row['benchmark']}: {row['note']}" for row in measured.to_dict("records") if row["note"]),
        *(f"FAILED: {failure}" for failure in failures),
    )
    table = Table(measured, _shown(measured), "Speed and memory against rivals in the same run", notes)
    for kind in ("csv", "md"):
        table.write(folder / f"bench.{kind}")
    _draw(measured).write(folder / "bench.png")


def _shown(measured: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for row in measured.to_dict("records"):
        unit, scale = ("s", 1) if row["median_seconds"] >= 1 else ("ms", 1000)
        digits = 0 if row["median_seconds"] * scale >= 100 else 1 if row["median_seconds"] * scale >= 10 else 2
        low, middle, high = (f"{scale * row[f'{which}_seconds']:.{digits}f}" for which in ("least", "median", "most"))
        wanted = [f"{row['bar']:g}x" if row["bar"] == row["bar"] and row["bar"] else ""]
        wanted += (
            [f"memory {row['memory_bar']:g}x"] if row["memory_bar"] == row["memory_bar"] and row["memory_bar"] else []
        )
        first = row["role"] == "ours"
        rows.append(
            {
                "benchmark": row["benchmark"] + (", wall time" if row["clock"] == "wall" else "") if first else "",
                "form": f"**{row['form']}**" if first else row["form"],
                "time": f"{middle} ({low}–{high}) {unit}",
                "ours is faster": "" if first else f"{row['times_faster']:.2f}x",
                "peak MiB": "" if row["peak_mib"] != row["peak_mib"] else f"{row['peak_mib']:.0f}",
                "less memory": "" if first or row["times_less_memory"] != row["times_less_memory"]
                else f"{row['times_less_memory']:.1f}x",
                "bar": ", ".join(filter(None, wanted)),
                "met": {True: "yes", False: "**no**"}.get(row["met"], ""),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _draw(measured: pd.DataFrame) -> Figure:
    rivals = measured[measured["role"] == "rival"].iloc[::-1].reset_index(drop=True)
    canvas = Canvas(figsize=(7, 0.9 + 0.27 * len(rivals)), layout="constrained")
    axes = canvas.subplots()
    colours = [{True: GREEN, False: VERMILION}.get(met, BLUE) for met in rivals["met"]]
    # From 1, where both are equal: to the left of it ours is the slower one.
    axes.barh(rivals.index, rivals["times_faster"] - 1, left=1, color=colours, height=0.62)
    for at, row in rivals.iterrows():
        end, bar = row["times_faster"], row["bar"]
        if bar == bar and bar:
            axes.plot([bar] * 2, [at - 0.4, at + 0.4], color="black", linewidth=1.6)
            end = max(end, bar)
        place = {"textcoords": "offset points", "va": "center", "fontsize": 7}
        axes.annotate(f"{row['times_faster']:.1f}", (max(end, 1), at), (4, 0), **place)
    axes.set_yticks(rivals.index, [f"{row.benchmark}\nagainst {row.form}" for row in rivals.itertuples()], fontsize=6)
    axes.set_xscale("log")
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50, 100) if tick <= 2 * rivals["times_faster"].max()]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(min(0.8, 0.9 * rivals["times_faster"].min()), 1.5 * rivals["times_faster"].max())
    axes.axvline(1, color="0.4", linewidth=0.8)
    axes.set(
        xlabel="times faster than the rival; the black line is the bar", title="Speed against rivals in the same run"
    )
    axes.grid(axis="y", visible=False)
    canvas.supxlabel(about(), fontsize=6, color="0.35", x=0.01, ha="left")
    return Figure(canvas)


def main(benchmarks: Iterable[Benchmark], argv: list[str] | None = None) -> list[str]:
    """Run benchmarks as a program; the table of all of them is written only if there is a folder for it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="benchmarks whose name contains this; the table keeps what it has of the others")
    parser.add_argument("--rounds", type=int, help="of every benchmark, instead of its own number")
    parser.add_argument("--output", type=Path, help="folder for bench.csv, bench.md and bench.png")
    options = parser.parse_args(argv)
    benchmarks = list(benchmarks)
    chosen = [each for each in benchmarks if (options.only or "") in each.name]
    if options.rounds:
        chosen = [replace(each, rounds=options.rounds) for each in chosen]
    measured, failures = run_all(chosen)
    if len(measured):
        print(_shown(measured).to_markdown(index=False, disable_numparse=True))
        if options.output:
            table = options.output / "bench.csv"
            if options.only and table.exists():
                measured = with_earlier(measured, pd.read_csv(table), [each.name for each in benchmarks])
            write(measured, failures, options.output)
    return failures
