"""Let the network of a run, or those of several seeds, predict for inputs that somebody brings."""

import argparse
import logging
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pyarrow.csv import CSVWriter
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from equiset.errors import DamagedError, EquisetError
from equiset.experiments import experiment_module
from equiset.files import atomic_path
from equiset.given import number
from equiset.results.runs import DATA
from equiset.training.devices import choose_device, fix_arithmetic
from equiset.training.load_run import Trained, load_run

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run, or of one variant's seeds")
    parser.add_argument("input", type=Path, metavar="INPUT", help="meshes, faces, digits or a catalogue")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="ends in .csv or .parquet")
    parser.add_argument("--on-bad", choices=("stop", "skip"), default="stop", help="what to do about a bad file")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--threads", type=number, default=1, help="CPU threads; last bits depend on it")


def predict(arguments: argparse.Namespace) -> None:
    """Write a table of predictions."""
    if arguments.output.suffix not in (".csv", ".parquet"):
        raise EquisetError(f"--output {arguments.output}: the name must end in .csv or .parquet")
    if not arguments.input.exists():
        raise EquisetError(f"{arguments.input} is not there")
    torch.set_num_threads(arguments.threads)
    device = choose_device(arguments.device)
    try:
        runs = load_runs(arguments.run, device)
    except DamagedError as error:  # of a user's own folder, perhaps: it stays as it is
        raise EquisetError(f"{error}. Train it again, or get its folder again") from None
    fix_arithmetic(runs[0].settings.training.precision, device)
    bad: list[str] = []

    def on_bad(reason: str) -> None:
        if arguments.on_bad == "stop":
            raise EquisetError(f"{reason}. Mend or remove it, or go on without it: --on-bad skip")
        log.warning("left out: %s", reason)
        bad.append(reason)

    experiment = runs[0].info["spec"]["experiment"]
    total, tables = experiment_module(experiment, "predict").predict(runs, arguments.input, on_bad)
    rows, file = 0, None
    writer = CSVWriter if arguments.output.suffix == ".csv" else pq.ParquetWriter
    with (
        logging_redirect_tqdm(),
        tqdm(total=total, unit="row", disable=None) as bar,  # silent where stderr is no terminal
        atomic_path(arguments.output) as partial,
        ExitStack() as closing,
    ):
        for table in tables:
            block = pa.Table.from_pandas(table, preserve_index=False)
            file = file or closing.enter_context(writer(partial, block.schema))
            file.write_table(block)
            rows += len(block)
            bar.update(len(block))
        if file is None:
            raise EquisetError(f"{arguments.output} is not written: nothing could be predicted")
    log.info("%d rows in %s; left out: %d", rows, arguments.output, len(bad))


def load_runs(folder: Path, device: torch.device) -> list[Trained]:
    """Return the run in a folder, or the runs in its folders `seed*`, which must differ by the seed alone."""
    folders = [folder] if (folder / "run.json").is_file() else sorted(folder.glob("seed*"))
    if not folders:
        raise EquisetError(f"{folder} is neither the folder of a run (run.json) nor one with folders seed0, seed1, ...")
    runs = [load_run(one, device) for one in folders]
    specs = [{**run.info["spec"], "seed": None} for run in runs]
    if any(spec != specs[0] for spec in specs):
        raise EquisetError(f"{folder} holds runs that differ by more than the seed")
    name, sets = f"{specs[0]['experiment']}, {specs[0]['variant']}", runs[0].sets
    log.info("%s: %d network(s), trained on %s: %s", name, len(runs), DATA[sets["kind"]], sets["data"])
    return runs
