"""The paper's claims: what is measured on the layers themselves, and a verdict on each claim."""


rule measure:
    """Measure what the paper says of the layers themselves, on generated sets."""
    output:
        # Those named `time_` hold processor time, which differs from run to run.
        measured=expand("results/{{scale}}/laws/{item}.parquet", item=Laws.model_fields),
        run="results/{scale}/laws/run.json",
    log:
        "results/{scale}/logs/measure.log",
    benchmark:
        "results/{scale}/benchmarks/measure.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        code=stage_code("measure"),
        settings=lambda wildcards: canonical_json(laws_spec(config_at(wildcards.scale))),
        folder=lambda wildcards, output: str(Path(output.run).parent),
    message:
        "Measuring the layers themselves"
    shell:
        "python -m equiset.stages.measure --settings {params.settings:q} --output {params.folder:q}"
        " --threads {threads} 2> {log:q}"


rule judge_claims:
    """Judge every claim of the paper by all that was run and measured."""
    input:
        claims=local("workflow/claims.yaml"),
        runs=lambda wildcards: of_all_experiments(run_files, wildcards),
        analyses=lambda wildcards: of_all_experiments(analysis_files, wildcards),
        measured=rules.measure.output.measured,
    output:
        claims=multiext("results/{scale}/claims/claims", ".csv", ".md", ".tex", ".html"),
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
        code=stage_code("judge"),
        scale="{scale}",
        runs=lambda wildcards, input: folders_of(input.runs),
        folder=lambda wildcards, output: str(Path(output.conditions).parent),
    message:
        "Judging the paper's claims"
    shell:
        "python -m equiset.stages.judge --claims {input.claims:q} --scale {params.scale} --runs {params.runs:q}"
        " --analyses {input.analyses:q} --measured {input.measured:q} --output {params.folder:q} 2> {log:q}"


use rule judge_claims as judge_claims_of_one with:
    # For whoever runs a single experiment: all claims are listed, those of the others are not tested.
    input:
        claims=local("workflow/claims.yaml"),
        runs=run_files,
        analyses=analysis_files,
        measured=[],
    output:
        claims=multiext(
            "results/{scale}/{experiment}/claims/claims",
            ".csv",
            ".md",
            ".tex",
            ".html",
        ),
        conditions="results/{scale}/{experiment}/claims/conditions.csv",
    log:
        "results/{scale}/logs/judge_claims/{experiment}.log",
    benchmark:
        "results/{scale}/benchmarks/judge_claims/{experiment}.tsv"
    params:
        code=stage_code("judge"),
        scale="{scale}",
        runs=lambda wildcards, input: folders_of(input.runs),
        folder=lambda wildcards, output: str(Path(output.conditions).parent),
    message:
        "Judging the paper's claims by {wildcards.experiment} alone"
