"""Copy the small files of an experiment's runs to where published results live, with a page that shows them."""

import argparse
import shutil
from pathlib import Path

from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.process import run_stage
from equiset.results.runs import Run, what_was_measured

LARGEST = 1_000_000
"""Bytes. Weights and predictions stay out: the command on the page makes them again."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--results", required=True, type=Path, help="folder of the experiment's results")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of the runs, in table order")
    parser.add_argument("--config", required=True, type=Path, help="config file that the runs were made with")
    parser.add_argument("--output", required=True, type=Path, help="folder to write")
    arguments = parser.parse_args(argv)
    runs = [Run(folder) for folder in arguments.runs]
    for run in runs:
        if (run.info["git_commit"] or "-dirty").endswith("-dirty"):
            raise EquisetError(f"{run.folder}/run.json: the code was not committed. Commit it, then run again")
    arguments.output.mkdir(parents=True)
    copies = {arguments.config: Path("config.yaml")}
    for run in runs:
        for name in ("run.json", "metrics.parquet"):
            copies[run.folder / name] = Path("runs") / run.variant / f"seed{run.seed}" / name
    for folder in ("tables", "figures"):
        copies |= {path: Path(folder) / path.name for path in sorted((arguments.results / folder).iterdir())}
    for source, target in copies.items():
        if source.stat().st_size > LARGEST:
            raise EquisetError(f"{source}: {source.stat().st_size:,} bytes are too many to publish")
        (arguments.output / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, arguments.output / target)
    (arguments.output / "README.md").write_text(page(arguments.experiment, runs, arguments.config, arguments.output))


def page(experiment: str, runs: list[Run], config: Path, folder: Path) -> str:
    """Return what a visitor of the folder reads: where it comes from, its tables and figures."""
    title = experiment_module(experiment, "settings").ExperimentSettings.title
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.variant, []).append(run)
    first = runs[0].info
    hours = sum(sum(run.info["epoch_seconds"]) for run in runs) / 3600
    commits = sorted({run.info["git_commit"][:12] for run in runs})
    machine = f"{first['machine']['processor']}, {first['machine']['cores']} cores, {first['device']}"
    parts = [
        f"# {title}: a published run",
        f"Measured on {what_was_measured(groups)}",
        f"Made by code {', '.join(commits)} with torch {first['versions']['torch']} on {machine}, {first['threads']} "
        f"thread a run, {hours:.1f} hours of training by the clock, pauses included. To make it again:",
        f"```\nsnakemake --cores all --configfile {config} -- {folder}\n```",
        "`runs/` holds the settings, data digests, versions and times of every run, and its metrics by epoch.",
    ]
    parts += [path.read_text().strip() for path in sorted((folder / "tables").glob("*.md"))]
    parts += [f"![{path.stem}](figures/{path.name})" for path in sorted((folder / "figures").glob("*.png"))]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    run_stage(main)
