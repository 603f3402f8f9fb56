"""Write the page of all results at one scale."""

import argparse
import json
from pathlib import Path

from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.files import atomic_path
from equiset.process import run_stage
from equiset.results.report import Chapter, collect, write_page
from equiset.results.runs import Run


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="folder of the results of one scale")
    parser.add_argument("--template", required=True, type=Path, help="Jinja template of the page")
    parser.add_argument("--page", required=True, type=Path, help="HTML file")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of the runs of all experiments")
    parser.add_argument(
        "--shown", default="{}", type=json.loads, help="JSON: the tables and figures of each experiment; else all"
    )
    arguments = parser.parse_args(argv)
    chapters = [chapter_of(name, arguments.shown.get(name)) for name in EXPERIMENTS]
    content = collect(arguments.results, chapters, [Run(folder) for folder in arguments.runs])
    with atomic_path(arguments.page) as partial:
        partial.write_text(write_page(arguments.template, content), encoding="utf-8")


def chapter_of(experiment: str, shown: list[str] | None = None) -> Chapter:
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
        *(
            tuple(name for name in names if shown is None or name in shown)
            for names in (settings.tables, settings.figures)
        ),
    )


if __name__ == "__main__":
    run_stage(main)
