"""Reproduces "Deep Learning with Sets and Point Clouds": `snakemake --cores all`. The workflow is in workflow/Snakefile."""


include: "workflow/Snakefile"


rule default:
    """Make what `all` makes; an included file cannot choose the default."""
    default_target: True
    input:
        rules.all.input,
    localrule: True
