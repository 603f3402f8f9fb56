"""From a source (download, local folder or stand-in) to arrays, and on to the sets of an experiment."""


rule fetch:
    """Bring or find the raw files of a data set, check them, and say in a manifest what they are."""
    output:
        manifest="results/{scale}/data/{dataset}/manifest.json",
    log:
        "results/{scale}/logs/fetch/{dataset}.log",
    benchmark:
        "results/{scale}/benchmarks/fetch/{dataset}.tsv"
    # Data first, because everything else waits for them.
    priority: 2
    conda:
        "../../environment.yml"
    resources:
        runtime=240,
    params:
        code=code("data/{dataset}/*", "!data/{dataset}/stand_in*"),
        files=lambda wildcards: raw_files(wildcards.scale, wildcards.dataset),
        # Includes mirrors and time limits. A param computed from an output is not compared, so changing them refetches nothing.
        spec=lambda wildcards, output: fetch_spec(config_at(wildcards.scale), wildcards.dataset),
        # Not an output: downloads survive a failed job.
        cache=lambda wildcards: f"{config_at(wildcards.scale).data_folder}/{wildcards.dataset}",
    message:
        "Fetching {wildcards.dataset}"
    script:
        "../scripts/fetch.py"


rule prepare:
    """Read the raw files once, into arrays beside `store.json`, which has their digest."""
    input:
        manifest=rules.fetch.output.manifest,
    output:
        store="results/{scale}/data/{dataset}/store/store.json",
    log:
        "results/{scale}/logs/prepare/{dataset}.log",
    benchmark:
        "results/{scale}/benchmarks/prepare/{dataset}.tsv"
    priority: 2
    conda:
        "../../environment.yml"
    resources:
        mem_mb=5000,  # CelebA: 2.5 GB for the array while it is written, plus a list of all file names in each process
    params:
        code=code("data/{dataset}/*", "!data/{dataset}/stand_in*"),
        spec=lambda wildcards: prepare_spec(config_at(wildcards.scale), wildcards.dataset),
    message:
        "Preparing {wildcards.dataset}"
    script:
        "../scripts/prepare.py"


rule export_clouds:
    """Write the clouds as ModelNet40_cloud.h5, the file that older code for sets expects; not part of the default target."""
    input:
        store="results/{scale}/data/modelnet40/store/store.json",
    output:
        file="results/{scale}/data/modelnet40/ModelNet40_cloud.h5",
    log:
        "results/{scale}/logs/export_clouds.log",
    conda:
        "../../environment.yml"
    params:
        code=code("data/modelnet40/export.py"),
    message:
        "Writing {output.file}"
    script:
        "../scripts/export_clouds.py"


rule make_sets:
    """Draw the sets once per seed; every variant with that seed learns from the same ones."""
    input:
        store=store_of,
    output:
        sets="results/{scale}/{experiment}/sets/{sets}/seed{seed}/sets.json",
    log:
        "results/{scale}/logs/make_sets/{experiment}/{sets}/seed{seed}.log",
    benchmark:
        "results/{scale}/benchmarks/make_sets/{experiment}/{sets}/seed{seed}.tsv"
    priority: 1
    conda:
        "../../environment.yml"
    params:
        # `describe` in the settings' base writes a part of the output.
        code=code("experiments/{experiment}/sets.py", "config/experiment.py"),
        spec=lambda wildcards: sets_spec(
            config_at(wildcards.scale),
            wildcards.experiment,
            wildcards.sets,
            int(wildcards.seed),
        ),
    message:
        "Drawing sets {wildcards.sets} of {wildcards.experiment}, seed {wildcards.seed}"
    script:
        "../scripts/make_sets.py"
