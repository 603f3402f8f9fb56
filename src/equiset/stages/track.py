"""Send the runs of an experiment to MLflow, with what was found on them.

If the tracking server cannot be reached or a database is damaged, that is said and nothing fails: all results are
files. They are sent by the same command later.
"""

import argparse
import json
import logging
from pathlib import Path

from equiset.config.roles import Role
from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS
from equiset.files import write_json
from equiset.masking import VARIABLE, keep_secrets_of, scrub, with_secrets, without_secrets
from equiset.process import run_stage
from equiset.results.runs import Run
from equiset.results.summary import Findings
from equiset.tracking.tracker import SHOWN, open_experiment, remedy, sending, was_too_slow

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument(
        "--uri", required=True, help=f"tracking server, or sqlite:///path; *** is looked up in {VARIABLE}"
    )
    parser.add_argument("--scale", required=True, help="scale of the runs")
    parser.add_argument("--runs", nargs="+", type=Path, default=[], help="folders of the runs")
    parser.add_argument("--shown", nargs="+", type=Path, default=[], help="tables and figures")
    parser.add_argument("--measures", type=Path, help="file that the stage `measure_runs` wrote")
    parser.add_argument("--claims", type=Path, help="folder that the stage `judge` wrote")
    parser.add_argument("--roles", default={}, type=json.loads, help="JSON: what each variant is in tables and figures")
    parser.add_argument("--output", type=Path, help="JSON file that says which runs were sent")
    arguments = parser.parse_args(argv)

    uri = with_secrets(arguments.uri)
    keep_secrets_of(uri)
    sent: dict[str, str] = {}
    fault = None
    try:
        try:
            _send(arguments, uri, sent)
        except Exception as error:
            if not was_too_slow(error):
                raise
            _send(arguments, uri, sent)
    except EquisetError:  # a run's own file
        raise
    except Exception as error:  # whatever MLflow, its database or its server raise: a view must never stop results
        # Without the query and the advice that databases add.
        said = next(iter(str(error).splitlines()), "") or type(error).__name__
        fault = scrub(f"cannot reach {uri}: {said}", uri)
        log.warning("%s. The results are complete. %s", fault, remedy(uri))
    if arguments.output:
        shown = without_secrets(uri)
        pending = [str(folder) for folder in arguments.runs if str(folder) not in sent]
        write_json(arguments.output, {"uri": shown, "sent": sent, "pending": pending, "fault": fault})
        log.info("%d runs in %s, %d pending", len(sent), shown, len(pending))


def _send(arguments: argparse.Namespace, uri: str, sent: dict[str, str]) -> None:
    """Send what there is; `sent` gets MLflow's names of the runs."""
    roles = {name: Role.model_validate(role) for name, role in arguments.roles.items()}
    findings = Findings.read(arguments.measures, arguments.claims, roles) if arguments.measures else Findings()
    with sending(uri):
        tracker = open_experiment(uri, arguments.experiment, arguments.shown)
        for folder in arguments.runs:
            sent[str(folder)] = tracker.send_run(Run(folder), findings)
        if arguments.shown:
            open_experiment(uri, SHOWN).send_files(arguments.experiment, arguments.shown, arguments.scale)


if __name__ == "__main__":
    run_stage(main)
