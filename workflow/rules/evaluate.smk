"""Predictions of the trained networks."""


rule evaluate:
    """Let a trained network predict, from its weights file alone."""
    input:
        code=sources("stages/evaluate.py", "sets.py", "nn/*.py")
        + ["src/equiset/experiments/{experiment}/task.py"],
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
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
        gpu=gpus,
    params:
        folder=lambda wildcards, input: str(Path(input.run).parent),
    message:
        "Evaluating {wildcards.variant}, seed {wildcards.seed}"
    shell:
        "python -m equiset.stages.evaluate --run {params.folder:q} --store {input.store:q} --sets {input.sets:q}"
        " --output {output.predictions:q} --threads {threads}"
        " 2> {log:q}"
