"""The steps of the workflow, each a command: `python -m equiset.stages.<stage>`."""
