"""The paper's claims: what is measured on the layers themselves, and a verdict on each claim."""


rule measure_layers:
    """Measure what the paper says of the layers themselves, on generated sets."""
    output:
        # Those named `time_` hold processor time, which differs from run to run.
        measured=expand("results/{{scale}}/laws/{item}.parquet", item=Laws.model_fields),
        run="results/{scale}/laws/run.json",
    log:
        "results/{scale}/logs/measure_layers.log",
    benchmark:
        "results/{scale}/benchmarks/measure_layers.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        code=code(
            "nn/*",
            "training/*",
            "experiments/laws/*",
            "experiments/point_clouds/networks.py",
            "experiments/point_clouds/graphs.py",
        ),
        settings=lambda wildcards: canonical_json(
            config_at(wildcards.scale).laws.model_dump(mode="json")
        ),
        folder=lambda wildcards, output: str(Path(output.run).parent),
    message:
        "Measuring the layers themselves"
    shell:
        "python -m equiset.stages.measure_layers --settings {params.settings:q} --output {params.folder:q}"
        " --threads {threads} 2> {log:q}"


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
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        code=code("results/*", "experiments/laws/measures.py"),
    message:
        "Giving the measurements on the layers their intervals"
    shell:
        "python -m equiset.stages.measure_runs laws --scale {wildcards.scale} --analyses {input.measured:q}"
        " --output {output.measures:q} 2> {log:q}"


rule judge_claims:
    """Judge every claim of the paper by all that was measured."""
    input:
        claims=local("workflow/claims.yaml"),
        measures=expand(
            "results/{{scale}}/{part}/measures.parquet", part=[*EXPERIMENTS, "laws"]
        ),
    output:
        claims=multiext("results/{scale}/claims/claims", ".csv", ".md", ".tex", ".png"),
        conditions="results/{scale}/claims/conditions.csv",
    log:
        "results/{scale}/logs/judge_claims.log",
    benchmark:
        "results/{scale}/benchmarks/judge_claims.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        code=code("results/*"),
        folder=lambda wildcards, output: str(Path(output.conditions).parent),
    message:
        "Judging the paper's claims"
    shell:
        "python -m equiset.stages.judge --claims {input.claims:q} --measures {input.measures:q}"
        " --output {params.folder:q} 2> {log:q}"


use rule judge_claims as judge_claims_of_one with:
    # For whoever runs a single experiment: all claims are listed, those of the others are not tested.
    input:
        claims=local("workflow/claims.yaml"),
        measures=measures_of,
    output:
        claims=multiext(
            "results/{scale}/{experiment}/claims/claims",
            ".csv",
            ".md",
            ".tex",
            ".png",
        ),
        conditions="results/{scale}/{experiment}/claims/conditions.csv",
    log:
        "results/{scale}/logs/judge_claims/{experiment}.log",
    benchmark:
        "results/{scale}/benchmarks/judge_claims/{experiment}.tsv"
    params:
        code=code("results/*"),
    message:
        "Judging the paper's claims by {wildcards.experiment} alone"
