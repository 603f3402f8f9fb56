"""Reproduces "Deep Learning with Sets and Point Clouds": `snakemake --cores all`."""

from snakemake.utils import min_version

min_version("9.0")


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


rule all:
    default_target: True
    input:
        all_results(config_at().scale),


onsuccess:
    print(where_results_are())
