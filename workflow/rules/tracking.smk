"""MLflow's view of the runs. The files are the truth: deleting the database loses no result."""


rule create_tracking_database:
    """Create MLflow's database once, because several processes that open a new one together break it."""
    output:
        # Not the database itself: Snakemake deletes outputs before it repeats a job.
        flag=touch("results/mlflow.ready"),
    log:
        "results/mlflow.log",
    benchmark:
        "results/mlflow.tsv"
    localrule: True  # on a cluster: one machine writes to the database file, and only it must reach the server
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        code=stage_code("track"),
        uri=tracking_uri(),
    message:
        "Preparing MLflow at {params.uri}"
    shell:
        "python -m equiset.stages.track --uri {params.uri:q} 2> {log:q}"


rule track:
    """Send the runs of an experiment to MLflow, with its tables and figures."""
    input:
        # Not ancient(): a new address must send the runs at once, and Snakemake looks no further behind such a file.
        database=rules.create_tracking_database.output.flag,
        runs=run_files,
        shown=lambda wildcards: shown_files(wildcards.scale, wildcards.experiment),
        measures=measures_of,
    output:
        tracked="results/{scale}/{experiment}/tracked.json",
    log:
        "results/{scale}/logs/track/{experiment}.log",
    benchmark:
        "results/{scale}/benchmarks/track/{experiment}.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        code=experiment_code("track", "about"),
        uri=tracking_uri(),
        folders=lambda wildcards, input: folders_of(input.runs),
    message:
        "Sending the runs of {wildcards.experiment} to MLflow"
    shell:
        "python -m equiset.stages.track --uri {params.uri:q} --experiment {wildcards.experiment}"
        " --scale {wildcards.scale} --runs {params.folders:q} --shown {input.shown:q}"
        " --measures {input.measures:q} --output {output.tracked:q}"
        " 2> {log:q}"
