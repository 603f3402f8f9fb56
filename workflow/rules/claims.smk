"""The paper's claims: what is measured on the layers themselves, and a verdict on each claim."""


rule measure_layers:
    """Measure what the paper says of the layers themselves, on generated sets."""
    output:
        # Those named `time_` hold processor time, which differs from run to run.
        measured=expand("results/{{scale}}/laws/analyses/{item}.parquet", item=Laws.model_fields),
        run="results/{scale}/laws/analyses/run.json",
    log:
        "results/{scale}/logs/measure_layers.log",
    benchmark:
        "results/{scale}/benchmarks/measure_layers.tsv"
    wildcard_constraints:
        scale="|".join(SCALES),
    conda:
        "../../environment.yml"
    params:
        code=code(
            "nn/*",
            "training/*",
            "experiments/laws/*",
            "experiments/point_clouds/networks.py",
            "experiments/point_clouds/graphs.py",
        ),
        settings=lambda wildcards: config_at(wildcards.scale).laws.model_dump(mode="json"),
    message:
        "Measuring the layers themselves"
    script:
        "../scripts/measure_layers.py"


rule number_layers:
    """Give what was measured on the layers its intervals, as the numbers of the experiments have them."""
    input:
        measured=rules.measure_layers.output.measured,
    output:
        measures="results/{scale}/laws/measures.parquet",
    log:
        "results/{scale}/logs/number_layers.log",
    benchmark:
        "results/{scale}/benchmarks/number_layers.tsv"
    conda:
        "../../environment.yml"
    params:
        code=code("results/*", "experiments/laws/measures.py"),
        scale=scale_of_runs,
    message:
        "Giving the measurements on the layers their intervals"
    script:
        "../scripts/number_layers.py"


rule judge_claims:
    """Judge every claim of the paper by all that was measured."""
    input:
        claims=in_project("workflow/claims.yaml"),
        measures=expand("results/{{scale}}/{part}/measures.parquet", part=[*EXPERIMENTS, "laws"]),
    output:
        claims=multiext("results/{scale}/claims/claims", ".csv", ".md", ".tex", ".png"),
        conditions="results/{scale}/claims/conditions.csv",
    log:
        "results/{scale}/logs/judge_claims.log",
    benchmark:
        "results/{scale}/benchmarks/judge_claims.tsv"
    conda:
        "../../environment.yml"
    params:
        code=code("results/*"),
    message:
        "Judging the paper's claims"
    script:
        "../scripts/judge.py"


use rule judge_claims as judge_claims_of_one with:
    """Judge the claims by one experiment alone: all are listed, and those of the others are not tested."""
    input:
        claims=in_project("workflow/claims.yaml"),
        measures=rules.measure_runs.output.measures,
    output:
        claims=multiext("results/{scale}/{experiment}/claims/claims", ".csv", ".md", ".tex", ".png"),
        conditions="results/{scale}/{experiment}/claims/conditions.csv",
    log:
        "results/{scale}/logs/judge_claims/{experiment}.log",
    benchmark:
        "results/{scale}/benchmarks/judge_claims/{experiment}.tsv"
    message:
        "Judging the paper's claims by {wildcards.experiment} alone"
