"""One page that shows all results of a scale, and the captions of `snakemake --report`."""


report: "../report/workflow.rst"


rule write_report:
    """Put claims, tables, figures, times and provenance on one page that needs no network."""
    input:
        page=local("workflow/report/report.html.j2"),
        style=local("workflow/report/report.css"),
        claims=report(
            "results/{scale}/claims/claims.csv",
            caption="../report/claims.rst",
            category="Claims",
        ),
        results=lambda wildcards: finished_results(wildcards.scale),
        time=rules.time_by_rule.output,
    output:
        page="results/{scale}/report.html",
        captions="results/{scale}/captions.rst",
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
        code=report_code,
        chapters=chapters,
        folder=lambda wildcards, output: str(Path(output.page).parent),
        figures=lambda wildcards: canonical_json(
            {name: list(figures_of(wildcards.scale, name)) for name in EXPERIMENTS}
        ),
    message:
        "Writing {output.page}"
    shell:
        "python -m equiset.stages.report {params.folder:q} --template {input.page:q}"
        " --page {output.page:q} --captions {output.captions:q} --figures {params.figures:q}"
        " 2> {log:q}"
