"""Put the runs of an experiment that have ended where published results live, with all that judges them again."""

import argparse
import json
import shutil
from pathlib import Path

from equiset.errors import EquisetError, MissingFileError
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.given import json_object
from equiset.process import run_stage
from equiset.results.figures import NothingToShowError
from equiset.results.runs import Run, by_variant, runs_of, what_was_measured
from equiset.stages import show
from equiset.stages.judge_published import measure_folder
from equiset.stages.measure_runs import LAYERS

LARGEST = 5_000_000
"""Bytes of a file."""
WEIGHTS = 40_000_000
"""Bytes of all published weights."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=[*EXPERIMENTS, LAYERS])
    parser.add_argument("--runs", nargs="*", default=[], type=Path, help="folders of the runs that have ended")
    parser.add_argument("--analyses", nargs="*", default=[], type=Path, help="files that are published as they are")
    parser.add_argument("--store", type=Path, help="folder that the stage `prepare` wrote")
    parser.add_argument("--claims", required=True, type=Path, help="the claims file")
    parser.add_argument("--roles", default="{}", type=json_object, help="JSON: running variants, in table order")
    parser.add_argument("--shown", nargs="*", default=[], help="tables and figures that the config asks for")
    parser.add_argument("--config", required=True, type=Path, help="config file that the runs were made with")
    parser.add_argument("--output", required=True, type=Path, help="folder to write, and to add to if it is there")
    arguments = parser.parse_args(argv)
    copies = {arguments.config: arguments.output / "config.yaml"}
    for run in runs_of(arguments.experiment, arguments.runs):
        folder = run.folder
        if (run.info["git_commit"] or "-dirty").endswith("-dirty"):
            raise EquisetError(f"{folder}/run.json: the code was not committed. Commit it, then run again")
        target = arguments.output / "runs" / run.variant / f"seed{run.seed}"
        names = ("run.json", "metrics.parquet", "predictions.parquet", "weights.safetensors")
        copies |= {folder / name: target / name for name in names}
    copies |= {path: arguments.output / "analyses" / path.name for path in arguments.analyses}
    for source, target in copies.items():
        if source.stat().st_size > (WEIGHTS if source.suffix == ".safetensors" else LARGEST):
            raise EquisetError(f"{source}: {source.stat().st_size:,} bytes are too many to publish")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    weights = sum(path.stat().st_size for path in arguments.output.parent.rglob("*.safetensors"))
    if weights > WEIGHTS:
        raise EquisetError(f"{arguments.output.parent}: {weights:,} bytes of weights are too many to publish")
    measure_folder(arguments.output)
    if arguments.runs:
        show_all(arguments)


def show_all(arguments: argparse.Namespace) -> None:
    """Write tables, figures and page from what is published. Figures that show the data themselves stay out."""
    settings = experiment_module(arguments.experiment, "settings").ExperimentSettings
    folder, published = arguments.output, {}
    for variant in arguments.roles:
        published[variant] = sorted((folder / "runs" / variant).glob("seed*"))
    runs = [run for group in published.values() for run in group]
    kinds = {
        name: ("tables", "csv", "md", "tex") if name in settings.tables else ("figures", "png", "pdf")
        for name in arguments.shown
        if name not in settings.private
    }
    for part in ("tables", "figures"):
        shutil.rmtree(folder / part, ignore_errors=True)
    for name, (part, *endings) in kinds.items():
        options = [arguments.experiment, name, "--runs", *runs, "--store", arguments.store]
        options += ["--analyses", *sorted(folder.glob("analyses/*.parquet")), "--claims", arguments.claims]
        options += ["--roles", json.dumps(arguments.roles), "--measures", folder / "measures.parquet"]
        try:
            show.main([*map(str, options), "--output", *(str(folder / part / f"{name}.{end}") for end in endings)])
        except (MissingFileError, NothingToShowError):  # of an analysis or a run that is still to come
            continue
    (folder / "README.md").write_text(
        page(settings.title, by_variant(runs), arguments.config, folder), encoding="utf-8"
    )


def page(title: str, groups: dict[str, list[Run]], config: Path, folder: Path) -> str:
    """Return what a visitor of the folder reads: where it comes from, its tables and figures."""
    runs = [run for group in groups.values() for run in group]
    first = runs[0].info
    hours = sum(sum(run.info["epoch_seconds"]) for run in runs) / 3600
    commits = sorted({run.info["git_commit"][:12] for run in runs})
    places = [(run.info["machine"], run.info["device"]) for run in runs]
    machines = sorted({f"{machine['processor']}, {machine['cores']} cores, {device}" for machine, device in places})
    parts = [
        f"# {title}: published runs",
        f"Measured on {what_was_measured(groups)}",
        f"Made by code {', '.join(commits)} with torch {first['versions']['torch']} on {' and '.join(machines)}, "
        f"{first['threads']} thread a run, {hours:.1f} hours of training by the clock, pauses included. "
        f"To make them again, with the settings of `{config}`: `make reference`. To judge them again, without "
        "training: `make judge`.",
        "`runs/` holds the settings, data digests, versions and times of every run, its metrics by epoch, its "
        "predictions and its weights; `measures.parquet` every number with its interval.",
    ]
    parts += [path.read_text(encoding="utf-8").strip() for path in sorted((folder / "tables").glob("*.md"))]
    parts += [f"![{path.stem}](figures/{path.name})" for path in sorted((folder / "figures").glob("*.png"))]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    run_stage(main)
