"""From a source (download, local folder or stand-in) to arrays that training reads."""


rule fetch:
    """Bring or find the raw files of a data set, check them, and say in a manifest what they are."""
    output:
        manifest="results/{scale}/data/{dataset}/manifest.json",
    log:
        "results/{scale}/logs/fetch/{dataset}.log",
    benchmark:
        "results/{scale}/benchmarks/fetch/{dataset}.tsv"
    # Data first: a job that wants all cores, as `prepare` does, would else wait for a training, and the others for it.
    priority: 2
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=240,
    params:
        code=data_code("fetch"),
        files=lambda wildcards: raw_files(wildcards.scale, wildcards.dataset),
        # With mirrors and time limits, which fetch nothing again: what is derived from an output is not compared.
        spec=lambda wildcards, output: canonical_json(
            fetch_spec(config_at(wildcards.scale), wildcards.dataset)
        ),
        # Not an output: what was downloaded outlives a failed job.
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
        # With the digests of all that is in the folder. Snakemake compares files by content, and folders by time alone:
        # in a project that was copied, who depends on the folder would have to be made again.
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
        mem_mb=5000,  # CelebA: 2.5 GB of the array count as they are written, and eight processes know all names
        runtime=60,
    params:
        code=data_code("prepare"),
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
