"""What `config.yaml` may say, as typed settings, and what each job of the workflow is told of it."""
