"""One training job for each variant and seed, and what the trained networks answer."""


rule train:
    """Train one network. Killed, it goes on from its last checkpoint with the same bits."""
    input:
        store=store_of,
        sets=sets_of,
    output:
        run="results/{scale}/{experiment}/runs/{variant}/seed{seed}/run.json",
        metrics="results/{scale}/{experiment}/runs/{variant}/seed{seed}/metrics.parquet",
        weights="results/{scale}/{experiment}/runs/{variant}/seed{seed}/weights.safetensors",
    log:
        "results/{scale}/logs/train/{experiment}/{variant}/seed{seed}.log",
    benchmark:
        "results/{scale}/benchmarks/train/{experiment}/{variant}/seed{seed}.tsv"
    wildcard_constraints:
        scale="|".join(SCALES),  # published runs are inputs
    conda:
        "../../environment.yml"
    resources:
        mem_mb=4000,
        runtime=2880,
        gpu=gpus,
    params:
        code=lambda wildcards: training_code(wildcards.experiment),
        spec=lambda wildcards: run_spec(
            config_at(wildcards.scale),
            wildcards.experiment,
            wildcards.variant,
            int(wildcards.seed),
        ),
        # A param computed from an output is not compared: where MLflow is repeats no training.
        tracking=lambda wildcards, output: config_at(wildcards.scale).tracking.model_dump(),
        # Not an output: Snakemake deletes the outputs of a failed job, and the checkpoints must survive it.
        checkpoints="results/{scale}/{experiment}/checkpoints",
        # Whose checkpoint a longer run goes on from, as after a fresh clone.
        published=f"results/{REFERENCE}/{{experiment}}/runs/{{variant}}/seed{{seed}}",
    message:
        "Training {wildcards.experiment} {wildcards.variant}, seed {wildcards.seed} (log: {log})"
    script:
        "../scripts/train.py"


rule evaluate:
    """Let a trained network predict, from its weights file alone."""
    input:
        store=store_of,
        sets=sets_of,
        run=rules.train.output.run,
        weights=rules.train.output.weights,
    output:
        predictions="results/{scale}/{experiment}/runs/{variant}/seed{seed}/predictions.parquet",
    log:
        "results/{scale}/logs/evaluate/{experiment}/{variant}/seed{seed}.log",
    benchmark:
        "results/{scale}/benchmarks/evaluate/{experiment}/{variant}/seed{seed}.tsv"
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
        "Evaluating {wildcards.experiment} {wildcards.variant}, seed {wildcards.seed}"
    script:
        "../scripts/evaluate.py"


rule analyse:
    """Measure something on trained networks beyond their predictions."""
    input:
        store=store_of,
        runs=lambda wildcards: run_files(
            wildcards,
            ("run.json", "weights.safetensors"),
            config_at(wildcards.scale).experiment(wildcards.experiment).analyses[wildcards.item],
        ),
    output:
        table="results/{scale}/{experiment}/analyses/{item}.parquet",
    log:
        "results/{scale}/logs/analyse/{experiment}/{item}.log",
    benchmark:
        "results/{scale}/benchmarks/analyse/{experiment}/{item}.tsv"
    wildcard_constraints:
        scale="|".join(SCALES),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=3000,
        runtime=600,
        gpu=gpus,
    params:
        code=code(
            "nn/*",
            "training/*",
            "experiments/jobs.py",
            "experiments/{experiment}/*",
            "!experiments/{experiment}/results.py",
        ),
        settings=lambda wildcards: analysis_spec(config_at(wildcards.scale), wildcards.experiment, wildcards.item),
        order=run_folders,  # a new order in the config is a change, and inputs have none
    message:
        "Analysing {wildcards.item} of {wildcards.experiment}"
    script:
        "../scripts/analyse.py"
