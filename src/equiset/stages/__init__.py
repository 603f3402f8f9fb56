"""The steps of the workflow, each a command: `python -m equiset.stages.<stage>`."""

import os

# With the same workspace every time, cuBLAS gives the same bits. It stands here because it must be set before CUDA
# starts, and this runs before a stage imports torch.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
