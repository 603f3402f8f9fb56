"""MLflow's view of the runs. The files are the truth: deleting the database loses no result, and nothing waits for this."""

from equiset.tracking import store_uri, without_password


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
        # Another server in the environment is a change as well. Snakemake keeps params, so without a password.
        place=without_password(store_uri(config_at().tracking.uri)),
        runs=run_folders,
        roles=roles_of,
    message:
        "Sending the runs of {wildcards.experiment} to MLflow"
    script:
        "../scripts/track.py"
