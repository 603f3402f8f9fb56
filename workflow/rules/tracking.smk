"""MLflow's view of the runs. The files are the truth: deleting the database loses no result, and no result waits for this."""


onstart:
    create_database(config_at().tracking.uri)


rule track:
    """Send the runs of an experiment to MLflow, with what was found on them."""
    input:
        runs=lambda wildcards: run_files(wildcards, (*RUN_FILES, "weights.safetensors")),
        measures=rules.measure_runs.output.measures,
        claims=rules.judge_claims_of_one.output,
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
    params:
        code=code("tracking/*", "experiments/{experiment}/about.py"),
        uri=config_at().tracking.uri,
        place=tracking_uri(),  # another server in the environment is a change as well
        mirror=mirror_of,  # computed from an output, so it is not compared: another mirror repeats nothing
        runs=run_folders,
        roles=roles_of,
    message:
        "Sending the runs of {wildcards.experiment} to MLflow"
    script:
        "../scripts/track.py"


rule track_report:
    """Send the report and the claims of a scale to MLflow, after the runs."""
    input:
        tracked=lambda wildcards: expand(rules.track.output, scale=wildcards.scale, experiment=EXPERIMENTS),
        claims=rules.judge_claims.output,
        report="results/{scale}/report.html",
    output:
        tracked="results/{scale}/tracked.json",
    log:
        "results/{scale}/logs/track_report.log",
    benchmark:
        "results/{scale}/benchmarks/track_report.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=code("tracking/*"),
        uri=config_at().tracking.uri,
        place=tracking_uri(),
    message:
        "Sending the report to MLflow"
    script:
        "../scripts/track_report.py"
