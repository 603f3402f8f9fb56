"""From prepared data to the sets of an experiment."""


rule make_sets:
    """Draw the sets once per seed; every variant with that seed learns from the same ones."""
    input:
        store=ancient(store_of),
        about=about_store_of,
    output:
        sets=directory("results/{scale}/{experiment}/sets/{sets}/seed{seed}"),
        about="results/{scale}/{experiment}/sets/{sets}/seed{seed}.json",  # as `prepare` has it
    log:
        "results/{scale}/logs/make_sets/{experiment}/{sets}/seed{seed}.log",
    benchmark:
        "results/{scale}/benchmarks/make_sets/{experiment}/{sets}/seed{seed}.tsv"
    priority: 1
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        # `describe` in the settings' base writes a part of the output.
        code=code("experiments/{experiment}/sets.py", "config/experiment.py"),
        spec=lambda wildcards: canonical_json(
            sets_spec(
                config_at(wildcards.scale),
                wildcards.experiment,
                wildcards.sets,
                int(wildcards.seed),
            )
        ),
    message:
        "Drawing sets {wildcards.sets} of {wildcards.experiment}, seed {wildcards.seed}"
    shell:
        "python -m equiset.stages.make_sets --spec {params.spec:q} --store {input.store:q} --output {output.sets:q}"
        " 2> {log:q}\n"
        "cp {output.sets:q}/sets.json {output.about:q}"
