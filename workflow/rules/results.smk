"""Every number once, and the tables and figures that show them."""


rule measure_runs:
    """Measure everything on the runs of an experiment, each number with its interval."""
    input:
        runs=run_files,
        analyses=analysis_files,
    output:
        measures="results/{scale}/{experiment}/measures.parquet",
    log:
        "results/{scale}/logs/measure_runs/{experiment}.log",
    benchmark:
        "results/{scale}/benchmarks/measure_runs/{experiment}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        code=code("results/*", "experiments/{experiment}/measures.py"),
        folders=lambda wildcards, input: folders_of(input.runs),
        order=run_folders,  # a new order in the config is a change, and inputs have none
    message:
        "Measuring the runs of {wildcards.experiment}"
    shell:
        "python -m equiset.stages.measure_runs {wildcards.experiment} --scale {wildcards.scale}"
        " --runs {params.folders:q} --analyses {input.analyses:q} --output {output.measures:q} 2> {log:q}"


rule tabulate:
    """Write a table as CSV, Markdown, LaTeX and HTML."""
    input:
        runs=run_files,
        store=ancient(store_of),
        analyses=analysis_files,
        measures=measures_of,
        claims=local("workflow/claims.yaml"),  # the paper's values
    output:
        multiext(
            "results/{scale}/{experiment}/tables/{item}",
            ".csv",
            ".md",
            ".tex",
            ".html",
        ),
    log:
        "results/{scale}/logs/tabulate/{experiment}/{item}.log",
    benchmark:
        "results/{scale}/benchmarks/tabulate/{experiment}/{item}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        code=code("results/*", "experiments/{experiment}/results.py"),
        folders=lambda wildcards, input: folders_of(input.runs),
        order=run_folders,  # a new order in the config is a change, and inputs have none
        roles=roles_of,
    message:
        "Writing {output[0]}"
    shell:
        "python -m equiset.stages.show {wildcards.experiment} {wildcards.item} --runs {params.folders:q}"
        " --store {input.store:q} --analyses {input.analyses:q} --measures {input.measures:q}"
        " --claims {input.claims:q} --roles {params.roles:q}"
        " --output {output:q} 2> {log:q}"


use rule tabulate as plot with:
    output:
        multiext("results/{scale}/{experiment}/figures/{item}", ".png", ".pdf"),
    log:
        "results/{scale}/logs/plot/{experiment}/{item}.log",
    benchmark:
        "results/{scale}/benchmarks/plot/{experiment}/{item}.tsv"
    message:
        "Drawing {output[0]}"
