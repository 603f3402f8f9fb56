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
    params:
        code=code("results/*", "experiments/{experiment}/measures.py"),
        runs=run_folders,  # a new order in the config is a change, and inputs have none
    message:
        "Measuring the runs of {wildcards.experiment}"
    script:
        "../scripts/measure_runs.py"


rule tabulate:
    """Write a table as CSV, Markdown, LaTeX and HTML."""
    input:
        runs=run_files,
        store=store_of,
        analyses=analysis_files,
        measures=rules.measure_runs.output.measures,
        claims=in_project("workflow/claims.yaml"),  # the paper's values
    output:
        multiext("results/{scale}/{experiment}/tables/{item}", ".csv", ".md", ".tex", ".html"),
    log:
        "results/{scale}/logs/tabulate/{experiment}/{item}.log",
    benchmark:
        "results/{scale}/benchmarks/tabulate/{experiment}/{item}.tsv"
    conda:
        "../../environment.yml"
    params:
        code=code("results/*", "experiments/{experiment}/results.py"),
        runs=run_folders,
        roles=roles_of,
    message:
        "Writing {output[0]}"
    script:
        "../scripts/show.py"


use rule tabulate as plot with:
    """Draw a figure as PNG and PDF."""
    output:
        multiext("results/{scale}/{experiment}/figures/{item}", ".png", ".pdf"),
    log:
        "results/{scale}/logs/plot/{experiment}/{item}.log",
    benchmark:
        "results/{scale}/benchmarks/plot/{experiment}/{item}.tsv"
    message:
        "Drawing {output[0]}"
