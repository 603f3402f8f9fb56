"""The jobs of the workflow on an experiment: draw sets, analyse networks, measure, write tables and figures."""

from pathlib import Path
from typing import Any

from equiset.config.roles import Role
from equiset.config.settings import validate
from equiset.config.specs import sets_settings
from equiset.errors import choose
from equiset.experiments import experiment_module
from equiset.files import atomic_path, write_parquet
from equiset.results.claims import read_claims
from equiset.results.experiment import ExperimentResults
from equiset.results.measures import Measures, measure_runs
from equiset.results.runs import read_runs


def draw_sets(spec: dict[str, Any], store: Path, output: Path) -> None:
    """Draw an experiment's sets from the prepared data, into a folder."""
    settings = sets_settings(spec)
    with atomic_path(output) as folder:
        experiment_module(spec["experiment"], "sets").make_sets(settings, spec["seed"], store, folder)


def analyse_runs(
    experiment: str, analysis: str, runs: list[Path], store: Path, settings: dict[str, Any], output: Path, threads: int
) -> None:
    """Measure something on trained networks beyond their predictions, and write it as a table."""
    import torch  # here, because nothing else in this module needs it

    torch.set_num_threads(threads)
    analyse = choose(experiment_module(experiment, "analyses").ANALYSES, analysis, f"analysis of {experiment}")
    found = read_runs(runs, experiment=experiment)
    table = analyse(found, store, settings)
    # A run that is made longer later has the same name and other weights.
    weights = {(run.variant, run.seed): run.info["weights_sha256"] for group in found.values() for run in group}
    table["weights_sha256"] = [weights[network] for network in zip(table["variant"], table["seed"], strict=True)]
    write_parquet(output, table)


def measure(experiment: str, runs: list[Path], analyses: list[Path], output: Path) -> None:
    """Measure everything on the runs of an experiment, each number once.

    Args:
        experiment: its name.
        runs: folders of the runs, in table order.
        analyses: files of `analyse_runs`.
        output: Parquet file.
    """
    found = read_runs(runs, {path.stem: path for path in analyses}, experiment)
    measure_runs(experiment, found, experiment_module(experiment, "measures").MEASURES).write(output)


def show(
    experiment: str,
    item: str,
    runs: list[Path],
    store: Path | None,
    analyses: list[Path],
    measures: Path,
    claims: Path,
    roles: dict[str, Any],
    output: list[Path],
) -> None:
    """Write one table or figure of an experiment, from the numbers that were measured and the files of its runs.

    Args:
        experiment: its name.
        item: of the table or figure.
        runs: folders of the runs, in table order.
        store: folder of the prepared data, if they are there.
        analyses: files of `analyse_runs`.
        measures: file of `measure`.
        claims: the claims file, with the paper's values.
        roles: what each variant is in tables and figures.
        output: files; the suffix decides the format.
    """
    settings = experiment_module(experiment, "settings").ExperimentSettings
    choose(dict.fromkeys([*settings.tables, *settings.figures]), item, f"table or figure of {experiment}")
    results = ExperimentResults(
        read_runs(runs, {path.stem: path for path in analyses}, experiment),
        store,
        Measures.read(measures),
        {claim.id: claim for claim in read_claims(claims)},
        {name: validate(Role, role, "roles", name) for name, role in roles.items()},
    )
    shown = getattr(experiment_module(experiment, "results"), item)(results)
    for path in output:
        shown.write(path)
