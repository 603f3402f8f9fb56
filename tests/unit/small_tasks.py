"""Every variant of the config on the smallest stand-ins of the data, as `make gpu-check` makes them."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gpu_check

Tasks = gpu_check.Tasks
VARIANTS = Tasks(Path(tempfile.gettempdir())).variants
