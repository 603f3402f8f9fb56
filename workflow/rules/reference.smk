"""Published runs, from results at the paper's scale: `make reference`. Nothing of this is part of the default target."""


rule publish:
    """Copy the small files of an experiment's runs, its tables and its figures."""
    input:
        config=local("workflow/reference.yaml"),
        shown=lambda wildcards: shown_files("paper", PUBLISHED[wildcards.published]),
    output:
        directory("results/reference/{published}"),
    log:
        "results/paper/logs/publish/{published}.log",
    wildcard_constraints:
        published="|".join(PUBLISHED),
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        code=stage_code("publish"),
        experiment=lambda wildcards: PUBLISHED[wildcards.published],
        title=lambda wildcards: experiment_title(
            SimpleNamespace(scale="paper", experiment=PUBLISHED[wildcards.published])
        ),
        runs=lambda wildcards: run_folders(
            SimpleNamespace(scale="paper", experiment=PUBLISHED[wildcards.published])
        ),
    message:
        "Publishing {output}"
    shell:
        "python -m equiset.stages.publish {params.experiment} --results results/paper/{params.experiment}"
        " --runs {params.runs:q} --config {input.config:q} --output {output:q} 2> {log:q}"


use rule judge_claims as judge_published_claims with:
    input:
        claims=local("workflow/claims.yaml"),
        runs=of_published_experiments(run_files),
        analyses=of_published_experiments(analysis_files),
        measured=expand("results/paper/laws/{item}.parquet", item=Laws.model_fields),
    output:
        claims=multiext(
            "results/reference/claims/claims", ".csv", ".md", ".tex", ".html"
        ),
        conditions="results/reference/claims/conditions.csv",
    log:
        "results/paper/logs/judge_published_claims.log",
    benchmark:
        "results/paper/benchmarks/judge_published_claims.tsv"
    params:
        code=stage_code("judge"),
        scale="paper",
        runs=of_published_experiments(run_folders),
        folder=lambda wildcards, output: str(Path(output.conditions).parent),
    message:
        "Judging the paper's claims by the published runs"


rule readme:
    """Put the published claims and the MNIST table into README.md."""
    input:
        expand("results/reference/{published}", published=PUBLISHED),
        rules.judge_published_claims.output.claims,
    log:
        "results/paper/logs/readme.log",
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    message:
        "Writing the published results into README.md"
    shell:
        "python -m equiset.stages.readme README.md --reference results/reference 2> {log:q}"
