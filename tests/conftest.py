"""One thread for each test process: two of them share the machine (see pyproject.toml)."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
