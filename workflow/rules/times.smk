"""Where the time of a run went."""


rule time_by_rule:
    """Add up what the jobs took. It depends on the machine and differs from run to run."""
    input:
        results=lambda wildcards: finished_results(wildcards.scale),
    output:
        multiext("results/{scale}/time/time_by_rule", ".csv", ".md", ".tex", ".png"),
    log:
        "results/{scale}/logs/time_by_rule.log",
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        code=stage_code("times"),
        benchmarks="results/{scale}/benchmarks",
        logs="results/{scale}/logs",
    message:
        "Adding up where the time went"
    shell:
        "python -m equiset.stages.times --benchmarks {params.benchmarks:q} --logs {params.logs:q}"
        " --output {output:q} 2> {log:q}"
