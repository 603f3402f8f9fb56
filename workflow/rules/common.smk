"""The validated config, and helpers named for what they return."""

import json
import os
import sys
from functools import cache
from glob import glob
from pathlib import Path
from types import SimpleNamespace

from snakemake.exceptions import WorkflowError

# The code of this folder, wherever the package is installed from: it is what the jobs run.
sys.path.insert(0, str(Path("src").resolve()))

from equiset import masking
from equiset.config.resolve import (
    SCALES,
    analysis_spec,
    fetch_spec,
    manifest_spec,
    prepare_spec,
    resolve,
    run_spec,
    sets_spec,
    user_changes,
)
from equiset.data import DATASETS
from equiset.data.inventory import identify
from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS
from equiset.files import canonical_json
from equiset.fingerprint import fingerprint, training_code
from equiset.experiments.laws.settings import Laws
from equiset.occupancy import begin_run
from equiset.placement import SHARING, cards, device_of
from equiset.space import check_space
from equiset.stages import follow

# Jobs run the code of this folder with the Python that runs Snakemake, whether or not its environment is active.
os.environ.update(
    PATH=os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    ),
    PYTHONPATH=str(Path("src").resolve()),
)

# Jobs on other machines read this file too, and belong to the run that has begun.
if workflow.is_main_process and (notice := begin_run()):
    logger.warning(notice)


@cache
def config_at(scale=None):
    """The validated config at a scale, by default the one that the config names."""
    try:
        said = workflow.config_settings
        changes = user_changes(Path("config.yaml"), said.configfiles, said.config)
        return resolve(config, scale, changes)
    except EquisetError as error:
        raise WorkflowError(str(error)) from None


config_at()

os.environ[SHARING] = str(config_at().jobs_per_card)


wildcard_constraints:
    scale="smoke|demo|paper",
    dataset="|".join(DATASETS),
    experiment="|".join(EXPERIMENTS),
    sets="[A-Za-z0-9_-]+",
    variant="[A-Za-z0-9_-]+",
    seed="[0-9]+",
    item="[a-z0-9_]+",


# The parameter `code` of a rule, compared by value, identifies the code that can change the output of its jobs.


def code(*patterns):
    """The code in some files of the package; `{experiment}` and `{dataset}` are a job's own."""
    return lambda wildcards: fingerprint(
        *(pattern.format(**dict(wildcards.items())) for pattern in patterns)
    )


def fetch_code(wildcards):
    """The code that brings the raw files of a data set. That of its stand-in counts where it is made."""
    folder = f"data/{wildcards.dataset}"
    source = config_at(wildcards.scale).dataset(wildcards.dataset).source
    return fingerprint(
        f"{folder}/*", *([] if source == "stand-in" else [f"!{folder}/stand_in*"])
    )


def download_folder(scale, dataset):
    """Where the downloads of a data set are kept."""
    return f"{config_at(scale).data_folder}/{dataset}"


@cache
def raw_files(scale, dataset):
    """What decides which raw files there are; for a user's own folder, its current content."""
    spec = manifest_spec(config_at(scale), dataset)
    settings = config_at(scale).dataset(dataset)
    if settings.source == "folder":
        spec["content"] = identify(settings, Path(download_folder(scale, dataset)))
    return canonical_json(spec)


def processes(wildcards):
    """The number of processes that train one network."""
    return config_at(wildcards.scale).processes


def preparing_threads(wildcards):
    """Up to eight, and locally one less than Snakemake was given: a job that asks for all cores waits for the longest job.

    On a queue each job has cores of its own and Snakemake has no total (`workflow.cores` raises).
    """
    cores = None if workflow.remote_exec else workflow.resource_settings.cores
    return 8 if cores is None else min(8, max(1, cores - 1))


def gpus(wildcards):
    """The number of GPUs that a job takes, other than training by several processes."""
    return int(device_of(config_at(wildcards.scale).device) == "cuda")


def store_of(wildcards):
    """The prepared data that an experiment draws from."""
    experiment = config_at(wildcards.scale).experiment(wildcards.experiment)
    return f"results/{wildcards.scale}/data/{experiment.dataset}/store"


def about_store_of(wildcards):
    """What identifies the content of `store_of`."""
    return f"{store_of(wildcards)}.json"


def sets_of(wildcards):
    """The sets that a run learns from."""
    variants = config_at(wildcards.scale).experiment(wildcards.experiment).variants
    if wildcards.variant not in variants:
        raise WorkflowError(
            f"{wildcards.experiment} has no variant {wildcards.variant!r}, only {list(variants)}"
        )
    name = variants[wildcards.variant].sets
    return f"results/{wildcards.scale}/{wildcards.experiment}/sets/{name}/seed{wildcards.seed}"


def about_sets_of(wildcards):
    """What identifies the content of `sets_of`."""
    return f"{sets_of(wildcards)}.json"


def run_folders(wildcards, variants=None):
    """The folders of the runs of an experiment, all or of some variants, in the order of the config."""
    experiment = config_at(wildcards.scale).experiment(wildcards.experiment)
    return [
        f"results/{wildcards.scale}/{wildcards.experiment}/runs/{variant}/seed{seed}"
        for variant in experiment.running
        if variants is None or variant in variants
        for seed in experiment.seeds
    ]


def analysed_folders(wildcards):
    """The folders of the runs that an analysis needs."""
    experiment = config_at(wildcards.scale).experiment(wildcards.experiment)
    return run_folders(wildcards, experiment.analyses[wildcards.item])


def folders_of(files):
    """The folders of some files where a job finds them: below `results`, or a storage's copies."""
    return list(dict.fromkeys(str(Path(file).parent) for file in files))


def analysis_files(wildcards):
    """The analyses of an experiment whose variants run at this scale."""
    analyses = config_at(wildcards.scale).experiment(wildcards.experiment).analyses
    folder = f"results/{wildcards.scale}/{wildcards.experiment}/analyses"
    return [
        f"{folder}/{name}.parquet"
        for name, variants in analyses.items()
        if run_folders(wildcards, variants)
    ]


def run_files(wildcards):
    """What all runs of an experiment leave for the tables and figures."""
    names = ("run.json", "metrics.parquet", "predictions.parquet")
    return [f"{folder}/{name}" for folder in run_folders(wildcards) for name in names]


def of_all_experiments(files_of, wildcards):
    """What a helper of this file returns for one experiment, for all of them."""
    return [
        file
        for experiment in EXPERIMENTS
        for file in files_of(
            SimpleNamespace(scale=wildcards.scale, experiment=experiment)
        )
    ]


def measures_of(wildcards):
    """Every number of an experiment, once."""
    return f"results/{wildcards.scale}/{wildcards.experiment}/measures.parquet"


def roles_of(wildcards):
    """What the running variants of an experiment are in tables and figures, as JSON, in the order of the config."""
    settings = config_at(wildcards.scale).experiment(wildcards.experiment)
    roles = {
        name: settings.variants[name].role.model_dump() for name in settings.running
    }
    return json.dumps(roles, ensure_ascii=False)


def published_options(wildcards):
    """What the stage `publish` is to take: the runs of an experiment that have ended, and what there is beside them."""
    if wildcards.published == "laws":
        names = [*(f"{item}.parquet" for item in Laws.model_fields), "run.json"]
        laws = [f"results/paper/laws/{name}" for name in names]
        return ["--analyses", *(file for file in laws if Path(file).exists())]
    paper = SimpleNamespace(scale="paper", experiment=wildcards.published)
    names = (
        "run.json",
        "metrics.parquet",
        "predictions.parquet",
        "weights.safetensors",
    )
    ended = [
        folder
        for folder in run_folders(paper)
        if all(Path(folder, name).exists() for name in names)
    ]
    analyses = [file for file in analysis_files(paper) if Path(file).exists()]
    options = ["--runs", *ended, "--analyses", *analyses, "--store", store_of(paper)]
    options += ["--roles", roles_of(paper)]
    shown = config_at("paper").experiment(wildcards.published).shown
    return options + ["--shown", *shown]


def shown_files(scale, experiment, kinds=("csv", "md", "tex", "html", "png", "pdf")):
    """The tables and figures of an experiment, in all forms or in some."""
    forms = {"tables": ("csv", "md", "tex", "html"), "figures": ("png", "pdf")}
    settings = config_at(scale).experiment(experiment)
    return [
        f"results/{scale}/{experiment}/{part}/{name}.{kind}"
        for part, possible in forms.items()
        for name in settings.shown
        if name in getattr(settings, part)
        for kind in possible
        if kind in kinds
    ]


def chapters(wildcards):
    """The titles of the experiments in the report."""
    settings = [config_at(wildcards.scale).experiment(name) for name in EXPERIMENTS]
    return canonical_json([one.title for one in settings])


def tracking_uri():
    """Where MLflow's view of the runs is kept, without passwords: jobs find those in their environment."""
    uri = config_at().tracking.address()
    try:
        shown = masking.without_secrets(uri)
    except EquisetError as error:
        raise WorkflowError(str(error)) from None
    if shown != uri:
        os.environ[masking.VARIABLE] = uri
    return shown


def let_jobs_take_turns_on_the_gpus():
    """Limit the resource `gpu` to this machine's GPUs unless the command line sets it. Clusters limit it themselves.

    Before a run starts, Snakemake does not say where its jobs will run.
    """
    found = cards()
    if (
        found
        and workflow.local_exec
        and "gpu" not in workflow.resource_settings.resources
    ):
        if device_of(config_at().device) == "cuda" and config_at().processes > len(
            found
        ):
            raise WorkflowError(
                f"config key 'processes' is {config_at().processes}, but this machine has {len(found)} GPU(s)"
            )
        workflow.register_resource("gpu", config_at().jobs_per_card * len(found))


def show_trainings_while_they_run():
    """Start a process beside the workflow that sends the progress of trainings to MLflow. Nothing waits for it."""
    training = any(job.rule.name == "train" for job in workflow.dag.needrun_jobs())
    if training and config_at().tracking.live:
        BESIDE.append(follow.start(tracking_uri()))


BESIDE = []  # keeps a reference: the process ends when this list is freed, at exit


def stop_if_the_disk_is_too_small():
    """Compare what the planned jobs will write with the free disk space, before the first one starts."""
    parts = {}
    for job in workflow.dag.needrun_jobs():
        names = {key: job.wildcards_dict.get(key) for key in ("dataset", "experiment")}
        parts.setdefault(job.wildcards_dict.get("scale"), set()).update(names.values())
    try:
        for scale in set(parts) & set(SCALES):
            check_space(config_at(scale), Path("results") / scale, parts[scale])
    except EquisetError as error:
        raise WorkflowError(str(error)) from None


def say_what_will_run():
    """Tell the console how many jobs there are of each kind; it estimates the time left from that."""
    wanted = workflow.dag.needrun_jobs()
    plan = [(job.rule.name, job.wildcards_dict.get("experiment", "")) for job in wanted]
    trainings = sum(rule == "train" for rule, _ in plan)
    logger.info(
        f"{len(plan)} jobs to run, {trainings} of them trainings. Logs: results/{config_at().scale}/logs/",
        extra={"plan": plan},
    )


def where_results_are():
    """What a user wants to know at the end: the verdicts, then where to look."""
    import pandas as pd

    from equiset.results.claims_table import headline

    folder = Path("results", config_at().scale)
    lines = []
    if (claims := folder / "claims" / "claims.csv").exists():
        lines.append(headline(pd.read_csv(claims, keep_default_na=False)))
    if (report := folder / "report.html").exists():
        lines.append(f"Report: {report}")
    lines.append(f"Tables and figures: {folder}/<experiment>/; runs in MLflow: make ui")
    return "\n".join(lines)
