"""Run all benchmarks: python benchmarks [--only NAME] [--rounds N] [--output FOLDER]

About thirteen minutes on two free cores. Writes bench.csv, bench.md and bench.png, and beside them growth.csv, .md and
.png (how cost grows with the size of the sets).
"""

import importlib
import sys
import time

import instrument

MODULES = (
    "set_layer",
    "set_encoder",
    "packed_sets",
    "onnx_inference",
    "convolutions",
    "graph_layer",
    "threads",
    "activation_maximisation",
    "meshes",
    "fits_to_parquet",
    "set_assembly",
    "image_preparation",
    "start_up",
    "mlflow_logging",
)


def main() -> int:
    started = time.perf_counter()
    arguments = sys.argv[1:] if "--output" in sys.argv else [*sys.argv[1:], "--output", "results/bench"]
    failures = instrument.main((b for name in MODULES for b in importlib.import_module(name).BENCHMARKS), arguments)
    if "--only" not in arguments:
        # Last, because it works in this process, from which no others may be forked afterwards.
        folder = arguments[arguments.index("--output") + 1]
        importlib.import_module("growth").main(["--output", folder])
    print(f"{(time.perf_counter() - started) / 60:.1f} minutes")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
