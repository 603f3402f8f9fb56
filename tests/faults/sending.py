"""Send runs of which nothing was measured or judged to MLflow, here or from a process of its own."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from equiset.errors import one_line_errors
from equiset.results.measures import Measures
from equiset.tracking import send as sending

Paths = Iterable[str | Path]


def send(uri: str, runs: Paths, output: str | Path, experiment: str = "mnist_sums", shown: Paths = ()) -> None:
    nothing = Path(output).with_suffix(".nothing")
    nothing.mkdir(exist_ok=True)
    Measures([]).write(nothing / "measures.parquet")
    for table in ("claims", "conditions"):
        (nothing / f"{table}.csv").touch()
    found = {"measures": nothing / "measures.parquet", "claims": nothing, "roles": {}, "mirror": "https://example.org/"}
    folders, files = ([Path(path) for path in paths] for paths in (runs, shown))
    sending.track_runs(experiment, "demo", uri, folders, files, **found, output=Path(output))


def command(uri: str, runs: Paths, output: str | Path, experiment: str = "mnist_sums", shown: Paths = ()) -> list[str]:
    """Return the command of a process that does it, for the project's folder."""
    arguments = [uri, [*map(str, runs)], str(output), experiment, [*map(str, shown)]]
    return [sys.executable, "-m", "tests.faults.sending", json.dumps(arguments)]


if __name__ == "__main__":
    with one_line_errors():
        send(*json.loads(sys.argv[1]))
