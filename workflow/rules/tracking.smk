"""MLflow's view of the runs. The files are the truth: deleting the database loses no result, and nothing waits for this."""


rule track:
    """Send the runs of an experiment to MLflow, with what was found on them."""
    input:
        runs=run_files,
        weights=lambda wildcards: [
            f"{folder}/weights.safetensors" for folder in run_folders(wildcards)
        ],
        measures=measures_of,
        claims=multiext(
            "results/{scale}/{experiment}/claims/", "claims.csv", "conditions.csv"
        ),
        shown=lambda wildcards: shown_files(wildcards.scale, wildcards.experiment),
    output:
        tracked="results/{scale}/{experiment}/tracked.json",
    log:
        "results/{scale}/logs/track/{experiment}.log",
    benchmark:
        "results/{scale}/benchmarks/track/{experiment}.tsv"
    localrule: True  # on a cluster: one machine writes to the database file, and only it must reach the server
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        code=code("tracking/*", "experiments/{experiment}/about.py"),
        uri=tracking_uri(),
        folders=lambda wildcards, input: folders_of(input.runs),
        claims=lambda wildcards, input: str(Path(input.claims[0]).parent),
        roles=roles_of,
    message:
        "Sending the runs of {wildcards.experiment} to MLflow"
    shell:
        "python -m equiset.stages.track {wildcards.experiment} --uri {params.uri:q} --scale {wildcards.scale}"
        " --runs {params.folders:q} --shown {input.shown:q} --measures {input.measures:q} --claims {params.claims:q}"
        " --roles {params.roles:q} --output {output.tracked:q}"
        " 2> {log:q}"
