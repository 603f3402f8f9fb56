"""From a source (download, local folder or stand-in) to arrays that training reads."""


rule fetch:
    """Bring or find the raw files of a data set, check them, and say in a manifest what they are."""
    output:
        manifest="results/{scale}/data/{dataset}/manifest.json",
    log:
        "results/{scale}/logs/fetch/{dataset}.log",
    benchmark:
        "results/{scale}/benchmarks/fetch/{dataset}.tsv"
    # Data first: `prepare` wants many cores and would otherwise wait for a training, with everything else waiting for it.
    priority: 2
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        code=fetch_code,
        files=lambda wildcards: raw_files(wildcards.scale, wildcards.dataset),
        # Includes mirrors and time limits. A param computed from an output is not compared, so changing them refetches nothing.
        spec=lambda wildcards, output: canonical_json(
            fetch_spec(config_at(wildcards.scale), wildcards.dataset)
        ),
        # Not an output: downloads survive a failed job.
        cache=lambda wildcards: download_folder(wildcards.scale, wildcards.dataset),
    message:
        "Fetching {wildcards.dataset}"
    shell:
        "python -m equiset.stages.fetch --spec {params.spec:q} --cache {params.cache:q} --output {output.manifest:q}"
        " 2> {log:q}"


rule prepare:
    """Read the raw files once, into arrays."""
    input:
        manifest=rules.fetch.output.manifest,
    output:
        store=directory("results/{scale}/data/{dataset}/store"),
        # Digests of everything in the folder. Snakemake compares files by content but folders only by time: in a copied
        # project, everything that depends on the folder would be made again.
        about="results/{scale}/data/{dataset}/store.json",
    log:
        "results/{scale}/logs/prepare/{dataset}.log",
    benchmark:
        "results/{scale}/benchmarks/prepare/{dataset}.tsv"
    priority: 2
    conda:
        "../../environment.yml"
    threads: preparing_threads
    resources:
        mem_mb=5000,  # CelebA: 2.5 GB for the array while it is written, plus a list of all file names in each of eight processes
        runtime=60,
    params:
        code=code("data/{dataset}/*", "!data/{dataset}/stand_in*"),
        spec=lambda wildcards: canonical_json(
            prepare_spec(config_at(wildcards.scale), wildcards.dataset)
        ),
    message:
        "Preparing {wildcards.dataset}"
    shell:
        "python -m equiset.stages.prepare --spec {params.spec:q} --manifest {input.manifest:q} --output {output.store:q}"
        " --threads {threads}"
        " 2> {log:q}\n"
        "cp {output.store:q}/store.json {output.about:q}"
