"""Reproduces "Deep Learning with Sets and Point Clouds": `snakemake --cores all`."""

from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.0")

if not Path("Snakefile").exists() or not Path("Snakefile").samefile(
    workflow.main_snakefile
):
    raise WorkflowError(
        f"results and downloads belong into the project's own folder: run the same command in {workflow.basedir}, "
        "without --snakefile and --directory. For a second set of results, copy the project"
    )


configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/sets.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/results.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/tracking.smk"
include: "workflow/rules/reference.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        # Also what the report and MLflow are made of: whoever deletes a table gets it again.
        expand(rules.judge_claims.output, scale=config_at().scale),
        [shown_files(config_at().scale, experiment) for experiment in EXPERIMENTS],
        expand(rules.track.output, scale=config_at().scale, experiment=EXPERIMENTS),
        f"results/{config_at().scale}/report.html",


onstart:
    let_jobs_take_turns_on_the_gpus()
    stop_if_the_disk_is_too_small()
    show_trainings_while_they_run()
    say_what_will_run()


onsuccess:
    if any(job.rule.name == "all" for job in workflow.dag.jobs):
        logger.info(where_results_are())
