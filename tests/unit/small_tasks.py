"""Every variant of the config on the smallest stand-ins of the data, as `make gpu-check` makes them."""

import importlib.util
import tempfile
from pathlib import Path

_spec = importlib.util.spec_from_file_location("gpu_check", Path(__file__).parents[2] / "benchmarks" / "gpu_check.py")
gpu_check = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(gpu_check)

Tasks = gpu_check.Tasks
VARIANTS = Tasks(Path(tempfile.gettempdir())).variants
