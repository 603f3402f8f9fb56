"""Predictions of the trained networks, and what else is measured on them."""


rule evaluate:
    """Let a trained network predict, from its weights file alone."""
    input:
        store=ancient(store_of),
        sets=ancient(sets_of),
        run=rules.train.output.run,
        weights=rules.train.output.weights,
    output:
        predictions="results/{scale}/{experiment}/runs/{variant}/seed{seed}/predictions.parquet",
    log:
        "results/{scale}/logs/evaluate/{experiment}/{variant}/seed{seed}.log",
    benchmark:
        "results/{scale}/benchmarks/evaluate/{experiment}/{variant}/seed{seed}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=60,
        gpu=gpus,
    params:
        code=lambda wildcards: training_code(wildcards.experiment),
        folder=lambda wildcards, input: str(Path(input.run).parent),
    message:
        "Evaluating {wildcards.experiment} {wildcards.variant}, seed {wildcards.seed}"
    shell:
        "python -m equiset.stages.evaluate --run {params.folder:q} --store {input.store:q} --sets {input.sets:q}"
        " --output {output.predictions:q} --threads {threads}"
        " 2> {log:q}"


rule analyse:
    """Measure something on trained networks beyond their predictions."""
    input:
        store=ancient(store_of),
        runs=lambda wildcards: [
            f"{folder}/{name}"
            for folder in analysed_folders(wildcards)
            for name in ("run.json", "weights.safetensors")
        ],
    output:
        table="results/{scale}/{experiment}/analyses/{item}.parquet",
    log:
        "results/{scale}/logs/analyse/{experiment}/{item}.log",
    benchmark:
        "results/{scale}/benchmarks/analyse/{experiment}/{item}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=600,
        gpu=gpus,
    params:
        code=code(
            "nn/*",
            "training/*",
            "experiments/{experiment}/*",
            "!experiments/{experiment}/results.py",
        ),
        settings=lambda wildcards: canonical_json(
            analysis_spec(
                config_at(wildcards.scale), wildcards.experiment, wildcards.item
            )
        ),
        folders=lambda wildcards, input: folders_of(input.runs),
        order=analysed_folders,  # a new order in the config is a change, and inputs have none
    message:
        "Analysing {wildcards.item} of {wildcards.experiment}"
    shell:
        "python -m equiset.stages.analyse {wildcards.experiment} {wildcards.item} --runs {params.folders:q}"
        " --store {input.store:q} --settings {params.settings:q} --output {output.table:q} --threads {threads}"
        " 2> {log:q}"
