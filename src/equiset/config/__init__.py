"""The content of `config.yaml` as typed settings, and the part of them that each job of the workflow gets."""
