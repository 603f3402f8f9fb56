"""Published runs: the scale `reference`, whose run files are committed. Nothing of this is part of the default target."""


rule reference_runs:
    """Make all runs that are to be published: many hours."""
    input:
        lambda wildcards: [
            file
            for experiment in EXPERIMENTS
            for file in run_files(SimpleNamespace(scale="paper", experiment=experiment))
        ],
        expand("results/paper/laws/analyses/{item}.parquet", item=Laws.model_fields),
    localrule: True


rule publish_part:
    """Copy the runs of an experiment that have ended to the published ones. Those still training are absent."""
    output:
        # Not the published files: Snakemake deletes outputs before a job, and they may come from other machines.
        flag=touch("results/paper/published/{part}"),
    log:
        "results/paper/logs/publish/{part}.log",
    wildcard_constraints:
        part="|".join([*EXPERIMENTS, "laws"]),
    localrule: True
    conda:
        "../../environment.yml"
    params:
        # Not inputs: what has not ended is not waited for.
        source="results/paper/{part}",
        analyses=lambda wildcards: (
            "results/paper/laws/analyses" if wildcards.part == "laws" else f"results/paper/analysed/{wildcards.part}"
        ),
        checkpoints="results/paper/{part}/checkpoints",
        output=f"results/{REFERENCE}/{{part}}",
    message:
        "Publishing {wildcards.part}"
    script:
        "../scripts/publish.py"


rule publish:
    """Publish what has ended of the runs of workflow/reference.yaml."""
    input:
        expand(rules.publish_part.output, part=[*EXPERIMENTS, "laws"]),
    localrule: True


rule verify:
    """Let a published network predict again, from its weights, and compare its answers with the published ones."""
    input:
        run=multiext(
            f"results/{REFERENCE}/{{experiment}}/runs/{{variant}}/seed{{seed}}/",
            "run.json",
            "weights.safetensors",
            "predictions.parquet",
        ),
        store=store_of,
        sets=sets_of,
    output:
        predictions="results/{scale}/verified/{experiment}/{variant}/seed{seed}.parquet",
    log:
        "results/{scale}/logs/verify/{experiment}/{variant}/seed{seed}.log",
    wildcard_constraints:
        scale="|".join(SCALES),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=3000,
        gpu=gpus,
    params:
        code=lambda wildcards: training_code(wildcards.experiment),
    message:
        "Verifying {wildcards.variant}, seed {wildcards.seed} (log: {log})"
    script:
        "../scripts/verify.py"


use rule analyse as analyse_published with:
    """Measure something on the published networks, from their weights. `make publish` takes it."""
    input:
        store=store_of,
        runs=lambda wildcards: run_files(
            SimpleNamespace(scale=REFERENCE, experiment=wildcards.experiment),
            ("run.json", "weights.safetensors"),
            config_at(wildcards.scale).experiment(wildcards.experiment).analyses[wildcards.item],
        ),
    output:
        table="results/{scale}/analysed/{experiment}/{item}.parquet",
    log:
        "results/{scale}/logs/analyse_published/{experiment}/{item}.log",
    benchmark:
        "results/{scale}/benchmarks/analyse_published/{experiment}/{item}.tsv"
    message:
        "Analysing {wildcards.item} of the published networks of {wildcards.experiment}"


rule reference_analyses:
    """Measure on the published networks all that goes beyond predictions: hours."""
    input:
        lambda wildcards: [
            f"results/paper/analysed/{experiment}/{Path(file).name}"
            for experiment in EXPERIMENTS
            for file in analysis_files(SimpleNamespace(scale="paper", experiment=experiment))
        ],
    localrule: True


rule judge:
    """Judge the paper's claims by the published runs alone, from their own files. Nothing is trained."""
    input:
        expand(rules.judge_claims.output, scale=REFERENCE),
    localrule: True


rule describe_published:
    """Write the page of an experiment's published folder."""
    input:
        runs=lambda wildcards: run_files(
            SimpleNamespace(scale=REFERENCE, experiment=wildcards.experiment), ("run.json",)
        ),
        shown=lambda wildcards: shown_files(REFERENCE, wildcards.experiment, ("md", "png")),
    output:
        page=f"results/{REFERENCE}/{{experiment}}/README.md",
    log:
        f"results/{REFERENCE}/logs/describe/{{experiment}}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=code("results/*", "experiments/pages.py", "experiments/{experiment}/about.py"),
    message:
        "Writing {output.page}"
    script:
        "../scripts/describe_published.py"


rule readme:
    """Put what was found on the published runs into README.md."""
    input:
        expand(rules.judge_claims.output, scale=REFERENCE),
        lambda wildcards: [file for experiment in EXPERIMENTS for file in shown_files(REFERENCE, experiment)],
        lambda wildcards: [
            f"results/{REFERENCE}/{experiment}/README.md"
            for experiment in EXPERIMENTS
            if shown_names(REFERENCE, experiment)
        ],
    output:
        readme=update(in_project("README.md")),
    log:
        f"results/{REFERENCE}/logs/readme.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=code("results/*", "experiments/pages.py"),
        reference=lambda wildcards, input: str(Path(input[0]).parents[1]),
    message:
        "Writing the published results into README.md"
    script:
        "../scripts/readme.py"
