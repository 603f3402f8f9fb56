"""The page of all results at a scale."""

from pathlib import Path

from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.files import atomic_path
from equiset.results.report import Chapter, collect, write_page
from equiset.results.runs import Run


def write_report(folder: Path, template: Path, runs: list[Path], shown: dict[str, list[str]], output: Path) -> None:
    """Write the page of all results in the folder of a scale; `shown` has the tables and figures of each experiment."""
    chapters = [_chapter(name, shown[name]) for name in EXPERIMENTS]
    content = collect(folder, chapters, [Run(run) for run in runs])
    with atomic_path(output) as partial:
        partial.write_text(write_page(template, content), encoding="utf-8")


def _chapter(experiment: str, shown: list[str]) -> Chapter:
    settings = experiment_module(experiment, "settings").ExperimentSettings
    about = experiment_module(experiment, "about")
    return Chapter(
        experiment,
        settings.title,
        about.PAPER,
        about.CLAIMS,
        about.QUESTION,
        about.READING,
        about.CAPTIONS,
        *(tuple(name for name in names if name in shown) for names in (settings.tables, settings.figures)),
    )
