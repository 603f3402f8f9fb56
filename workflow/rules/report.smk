"""One page that shows all results of a scale."""


rule write_report:
    """Put claims, tables, figures and provenance on one page that needs no network."""
    input:
        page=in_project("workflow/report/report.html.j2"),
        style=in_project("workflow/report/report.css"),
        claims="results/{scale}/claims/claims.csv",
        figure="results/{scale}/claims/claims.png",
        runs=lambda wildcards: [
            file
            for experiment in EXPERIMENTS
            for file in run_files(
                SimpleNamespace(scale=wildcards.scale, experiment=experiment),
                ("run.json",),
            )
        ],
        shown=lambda wildcards: [
            file for experiment in EXPERIMENTS for file in shown_files(wildcards.scale, experiment, ("html", "png"))
        ],
        data=lambda wildcards: [
            f"results/{wildcards.scale}/data/{dataset}/{name}.json"
            for dataset in DATASETS
            for name in ("manifest", "store/store")
            if wildcards.scale != REFERENCE
        ],
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
    params:
        code=code("results/*", "experiments/pages.py", "experiments/*/about.py"),
        shown=lambda wildcards: {name: shown_names(wildcards.scale, name) for name in EXPERIMENTS},
    message:
        "Writing {output.page}"
    script:
        "../scripts/report.py"
