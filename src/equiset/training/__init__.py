"""Training: the loop, its checkpoints, devices and arithmetic, and trained networks loaded from their files."""
