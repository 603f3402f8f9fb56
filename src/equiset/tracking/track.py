"""All that was found on the runs, in MLflow.

If its store cannot be reached or is damaged, that is said and nothing fails: all results are files, and `make track`
sends what is missing.
"""

import logging
from pathlib import Path
from typing import Any

from equiset.config.roles import Role
from equiset.errors import EquisetError
from equiset.files import write_json
from equiset.results.runs import Run
from equiset.results.summary import Findings
from equiset.tracking import first_line, store_uri, without_password
from equiset.tracking.tracker import SHOWN, open_experiment, remedy, sending, was_too_slow

log = logging.getLogger(__name__)


def track_runs(
    experiment: str,
    scale: str,
    uri: str | None,
    runs: list[Path],
    shown: list[Path],
    measures: Path,
    claims: Path,
    roles: dict[str, Any],
    output: Path,
) -> None:
    """Send the runs of an experiment that MLflow lacks, with what was found on them, and note which were sent.

    Args:
        experiment: its name.
        scale: of the runs.
        uri: tracking server or database; None for the environment's, or the project's own.
        runs: their folders.
        shown: tables and figures.
        measures: every number of the experiment.
        claims: folder of the verdicts.
        roles: what each variant is in tables and figures.
        output: JSON file.
    """
    uri, sent, fault = store_uri(uri), {}, None
    findings = Findings.read(measures, claims, {name: Role.model_validate(role) for name, role in roles.items()})

    def send() -> None:
        with sending(uri):
            tracker = open_experiment(uri, experiment, shown)
            for folder in runs:
                sent[str(folder)] = tracker.send_run(Run(folder), findings)
            open_experiment(uri, SHOWN).send_files(experiment, shown, scale)

    try:
        try:
            send()
        except Exception as error:
            if not was_too_slow(error):
                raise
            send()
    except EquisetError:  # a run's own file
        raise
    except Exception as error:
        fault = f"cannot reach {without_password(uri)}: {first_line(error, uri)}"
        log.warning("%s. The results are complete. %s", fault, remedy(uri))
    pending = [str(folder) for folder in runs if str(folder) not in sent]
    write_json(output, {"uri": without_password(uri), "sent": sent, "pending": pending, "fault": fault})
    log.info("%d runs in %s, %d pending", len(sent), without_password(uri), len(pending))
