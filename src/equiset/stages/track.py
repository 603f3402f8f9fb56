"""Send the runs of an experiment to MLflow, or, without --experiment, create the tracking database.

If the tracking server cannot be reached or a database is damaged, that is said and nothing fails: all results are
files. They are sent by the same command later.
"""

import argparse
import logging
from pathlib import Path

from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.files import write_json
from equiset.masking import VARIABLE, keep_secrets_of, scrub, with_secrets, without_secrets
from equiset.process import run_stage
from equiset.results.measures import Measures
from equiset.results.notes import experiment_note
from equiset.results.runs import Run
from equiset.tracking import open_experiment, open_store, remedy

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--uri", required=True, help=f"tracking server, or sqlite:///path; *** is looked up in {VARIABLE}"
    )
    parser.add_argument("--experiment", help="name of the experiment")
    parser.add_argument("--scale", help="scale of the runs")
    parser.add_argument("--runs", nargs="+", type=Path, default=[], help="folders of the runs")
    parser.add_argument("--shown", nargs="+", type=Path, default=[], help="tables and figures")
    parser.add_argument("--measures", type=Path, help="file that the stage `measure_runs` wrote")
    parser.add_argument("--output", type=Path, help="JSON file that says which runs were sent")
    arguments = parser.parse_args(argv)

    uri = with_secrets(arguments.uri)
    keep_secrets_of(uri)
    sent: dict[str, str] = {}
    fault = None
    try:
        if arguments.experiment is None:
            open_store(uri)
        else:
            tracker = open_experiment(uri, arguments.experiment)
            if arguments.experiment in EXPERIMENTS:
                about = experiment_module(arguments.experiment, "about")
                tracker.describe(experiment_note(about.QUESTION, about.PAPER))
            for folder in arguments.runs:
                sent[str(folder)] = tracker.send_run(Run(folder))
            measures = Measures.read(arguments.measures) if arguments.measures else Measures([])
            tracker.send_shown(arguments.shown, arguments.scale, measures)
    except EquisetError:  # a run's own file
        raise
    except Exception as error:  # whatever MLflow, its database or its server raise: a view must never stop results
        fault = scrub(f"cannot reach {uri}: {first_line(error)}", uri)
        log.warning("%s. The results are complete. %s", fault, remedy(uri))
    if arguments.output:
        shown = without_secrets(uri)
        pending = [str(folder) for folder in arguments.runs if str(folder) not in sent]
        write_json(arguments.output, {"uri": shown, "sent": sent, "pending": pending, "fault": fault})
        log.info("%d runs in %s, %d pending", len(sent), shown, len(pending))


def first_line(error: Exception) -> str:
    """Return what an error says, without the query and the advice that databases add to it."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


if __name__ == "__main__":
    run_stage(main)
