"""One training job for each variant and seed."""


rule train:
    """Train one network. Killed, it goes on from its last checkpoint with the same bits."""
    input:
        store=ancient(store_of),
        sets=ancient(sets_of),
        about=about_sets_of,
    output:
        run="results/{scale}/{experiment}/runs/{variant}/seed{seed}/run.json",
        metrics="results/{scale}/{experiment}/runs/{variant}/seed{seed}/metrics.parquet",
        weights="results/{scale}/{experiment}/runs/{variant}/seed{seed}/weights.safetensors",
    log:
        "results/{scale}/logs/train/{experiment}/{variant}/seed{seed}.log",
    benchmark:
        "results/{scale}/benchmarks/train/{experiment}/{variant}/seed{seed}.tsv"
    conda:
        "../../environment.yml"
    threads: processes
    resources:
        mem_mb=lambda wildcards: 4000 * processes(wildcards),
        runtime=2880,
        gpu=lambda wildcards: gpus(wildcards) * processes(wildcards),
        # Here and not under params: another number repeats no training.
        processes=processes,
    params:
        code=lambda wildcards: training_code(wildcards.experiment),
        spec=lambda wildcards: canonical_json(
            run_spec(
                config_at(wildcards.scale),
                wildcards.experiment,
                wildcards.variant,
                int(wildcards.seed),
            )
        ),
        folder=lambda wildcards, output: str(Path(output.run).parent),
        # Not an output: Snakemake deletes the outputs of a failed job, and the checkpoints must survive it.
        checkpoints=lambda wildcards: f"results/{wildcards.scale}/{wildcards.experiment}/checkpoints",
    message:
        "Training {wildcards.experiment} {wildcards.variant}, seed {wildcards.seed} (log: {log})"
    shell:
        "python -m equiset.stages.train --spec {params.spec:q} --store {input.store:q} --sets {input.sets:q}"
        " --checkpoints {params.checkpoints:q} --output {params.folder:q} --threads {threads}"
        " --processes {resources.processes} 2> {log:q}"
