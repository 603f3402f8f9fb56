"""One page that shows all results of a scale."""


rule write_report:
    """Put claims, tables, figures and provenance on one page that needs no network."""
    input:
        page=local("workflow/report/report.html.j2"),
        style=local("workflow/report/report.css"),
        claims="results/{scale}/claims/claims.csv",
        figure="results/{scale}/claims/claims.png",
        runs=lambda wildcards: [
            f"{folder}/run.json"
            for folder in of_all_experiments(run_folders, wildcards)
        ],
        shown=lambda wildcards: [
            file
            for experiment in EXPERIMENTS
            for file in shown_files(wildcards.scale, experiment, ("html", "png"))
        ],
        data=lambda wildcards: expand(
            "results/{scale}/data/{dataset}/{name}.json",
            scale=wildcards.scale,
            dataset=dict.fromkeys(
                config_at(wildcards.scale).experiment(name).dataset
                for name in EXPERIMENTS
            ),
            name=("manifest", "store"),
        ),
    output:
        page=report(
            "results/{scale}/report.html",
            category="Results",
            labels={"page": "all of them", "scale": "{scale}"},
        ),
    log:
        "results/{scale}/logs/write_report.log",
    benchmark:
        "results/{scale}/benchmarks/write_report.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        code=code("results/*", "experiments/*/about.py"),
        chapters=chapters,
        runs=lambda wildcards, input: folders_of(input.runs),
        # Where a storage keeps its copies, if there is one: all inputs lie in it as in the results.
        folder=lambda wildcards, input: str(Path(input.claims).parents[1]),
        shown=lambda wildcards: canonical_json(
            {
                name: config_at(wildcards.scale).experiment(name).shown
                for name in EXPERIMENTS
            }
        ),
    message:
        "Writing {output.page}"
    shell:
        "python -m equiset.stages.report {params.folder:q} --template {input.page:q} --runs {params.runs:q}"
        " --page {output.page:q} --shown {params.shown:q}"
        " 2> {log:q}"
