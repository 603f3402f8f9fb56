"""MLflow's view of the runs. Nothing else imports mlflow."""
