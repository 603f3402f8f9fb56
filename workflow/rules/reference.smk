"""Published runs, from results at the paper's scale. Nothing of this is part of the default target."""


rule reference_runs:
    """Make all that is to be published: many hours."""
    input:
        lambda wildcards: of_all_experiments(run_files, SimpleNamespace(scale="paper")),
        lambda wildcards: of_all_experiments(
            analysis_files, SimpleNamespace(scale="paper")
        ),
        expand("results/paper/laws/{item}.parquet", item=Laws.model_fields),
    localrule: True


rule publish_runs:
    """Copy the runs of an experiment that have ended, and show what is published. Those still training are absent."""
    input:
        config=local("workflow/reference.yaml"),
        claims=local("workflow/claims.yaml"),
    output:
        # Not the folder itself: Snakemake deletes outputs before it repeats a job, and it may hold runs of other machines.
        flag=touch("results/paper/published/{published}"),
    log:
        "results/paper/logs/publish_runs/{published}.log",
    wildcard_constraints:
        published="|".join([*EXPERIMENTS, "laws"]),
    localrule: True
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code("results/*"),
        options=published_options,
    message:
        "Publishing {wildcards.published}"
    shell:
        "python -m equiset.stages.publish {wildcards.published:q} {params.options:q} --config {input.config:q}"
        " --claims {input.claims:q} --output results/reference/{wildcards.published:q} 2> {log:q}"


rule publish:
    """Publish what has ended of the runs of workflow/reference.yaml."""
    input:
        lambda wildcards: [
            f"results/paper/published/{name}"
            for name in [*EXPERIMENTS, "laws"]
            if glob(f"results/paper/{name}/runs/*/*/predictions.parquet")
            or glob(f"results/paper/{name}/*.parquet")
        ],
    localrule: True


rule verify:
    """Let a published network predict again, from its weights, and compare its answers with the published ones."""
    input:
        run=multiext(
            "results/reference/{experiment}/runs/{variant}/seed{seed}/",
            "run.json",
            "weights.safetensors",
            "predictions.parquet",
        ),
        store=ancient(store_of),
        sets=ancient(sets_of),
        about=about_sets_of,
    output:
        predictions="results/{scale}/verified/{experiment}/{variant}/seed{seed}.parquet",
    log:
        "results/{scale}/logs/verify/{experiment}/{variant}/seed{seed}.log",
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=60,
        gpu=gpus,
    params:
        code=lambda wildcards: training_code(wildcards.experiment),
        folder=lambda wildcards, input: str(Path(input.run[0]).parent),
    message:
        "Verifying {wildcards.variant}, seed {wildcards.seed} (log: {log})"
    shell:
        "python -m equiset.stages.verify --run {params.folder:q} --store {input.store:q} --sets {input.sets:q}"
        " --output {output.predictions:q} --threads {threads}"
        " 2> {log:q}"


rule judge:
    """Judge the paper's claims by the published runs alone, from their own files. Nothing is trained."""
    input:
        claims=local("workflow/claims.yaml"),
    log:
        "results/paper/logs/judge.log",
    localrule: True
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        code=code("results/*"),
    message:
        "Judging the paper's claims by the published runs"
    shell:
        "python -m equiset.stages.judge_published results/reference --claims {input.claims:q} 2> {log:q}"


rule readme:
    """Judge the published runs, and put what was found into README.md."""
    input:
        claims=local("workflow/claims.yaml"),
    log:
        "results/paper/logs/readme.log",
    localrule: True
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        code=code("results/*"),
    message:
        "Writing the published results into README.md"
    shell:
        "python -m equiset.stages.readme README.md --reference results/reference --claims {input.claims:q} 2> {log:q}"
