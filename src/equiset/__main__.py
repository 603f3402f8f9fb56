"""`python -m equiset predict RUN INPUT --output FILE`: see docs/predict.md."""

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

from equiset.errors import EquisetError, one_line_errors
from equiset.files import atomic_path
from equiset.results.runs import DATA
from equiset.training.devices import choose_device, fix_arithmetic
from equiset.training.load_run import Trained, load_run, predict_with

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m equiset")
    about = "Let the network of a run, or those of several seeds, predict for inputs of your own."
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("predict", help=about, description=about)
    command.add_argument("run", type=Path, metavar="RUN", help="folder of a run, or of one variant's seeds")
    command.add_argument("input", type=Path, metavar="INPUT", help="meshes, faces, digits or a catalogue")
    command.add_argument("--output", required=True, type=Path, metavar="FILE", help="ends in .csv or .parquet")
    command.add_argument("--on-bad", choices=("stop", "skip"), default="stop", help="what to do about a bad file")
    command.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    command.add_argument("--threads", type=int, default=1, help="CPU threads; last bits depend on it")
    predict(parser.parse_args(argv))


def predict(arguments: argparse.Namespace) -> None:
    """Write a table of predictions."""
    if arguments.output.suffix not in (".csv", ".parquet"):
        raise EquisetError(f"--output {arguments.output}: the name must end in .csv or .parquet")
    torch.set_num_threads(max(1, arguments.threads))
    device = choose_device(arguments.device)
    runs = load_runs(arguments.run, device)
    fix_arithmetic(runs[0].settings.training.precision, device)
    left_out: list[str] = []
    total, tables = predict_with(runs, arguments.input, arguments.on_bad, left_out)
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
    log.info("%d rows in %s; left out: %d", rows, arguments.output, len(left_out))


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


if __name__ == "__main__":
    with one_line_errors():
        main()
