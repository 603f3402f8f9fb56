"""Hours, disk and money for the paper's runs and for a survey: python benchmarks/estimates.py [--gpu-tflops N] [...]

The operations of an epoch are counted from config.yaml; how fast they go was measured on one CPU core for one network
of each experiment (the constants below; docs/measurements.md says how to measure them again), and is assumed for a GPU.
Other networks of an experiment take time in proportion to their operations. All that is printed is an estimate.
"""

import argparse
from itertools import pairwise

import yaml

from equiset.config.resolve import Config, resolve

# Seconds for one epoch with validation, one core with AVX2: the variant, and what was measured.
MEASURED = {
    "mnist_sums": ("IV-N3", 33.0),
    "point_clouds": ("set-1000", 70.0),
    "outlier_faces": ("set-layer", 7200.0),
    "redshift": ("set", 16.0),
}
# Of redMaPPer: clusters, members, and those with a spectrum, a rough share.
CLUSTERS, MEMBERS, LABELLED_SHARE = 26_111, 1_703_685, 0.1
MESHES = 9843
STORE_BYTES = {
    "mnist_sums": 70_000 * 784,
    "point_clouds": 12_311 * 10_000 * 3 * 4,
    "outlier_faces": 202_599 * 64 * 64 * 3,
    "redshift": MEMBERS * 169,  # measured on the simulated catalogue: two arrays and the table
}


def convolutions(widths: list[int], kernel: int, sides: list[int]) -> float:
    """Return the operations of convolutions with these output sides."""
    return 2 * sum(side**2 * kernel**2 * i * o for side, (i, o) in zip(sides, pairwise(widths), strict=True))


def dense(widths: list[int]) -> float:
    return 2 * sum(i * o for i, o in pairwise(widths))


def epoch_operations(experiment: str, variant, config: Config) -> float:
    """Return the operations of one epoch: training is three times a forward pass, validation one."""
    sets = config.experiment(experiment).sets[variant.sets]
    match experiment:
        case "mnist_sums":
            one = convolutions([1, *variant.channels], 5, [28, 14, 7, 4]) + dense([512, variant.hidden])
            return one * sets.members * (3 * sets.train + sets.validation)
        case "outlier_faces":
            one = convolutions([3, *variant.channels], 3, [62, 60, 58, 27, 25, 23, 9, 7, 5])
            return one * sets.members * (3 * sets.train + sets.validation)
        case "point_clouds":
            # Backwards only the members that win a maximum count; the graph network has two products in each layer.
            passes = {"graph": 6}.get(variant.model, 1.3 if variant.form in ("max", "max-norm") else 3)
            return passes * dense([3] + [variant.width] * variant.layers) * sets.particles * MESHES
        case "redshift":
            members = 0.9 * MEMBERS * (LABELLED_SHARE if variant.model == "mlp" else 1)
            return 3 * dense([17, *variant.channels, 1]) * members
    raise ValueError(experiment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu-tflops", type=float, default=19.5, help="peak of the GPU, float32 (an A100)")
    parser.add_argument("--wide", type=float, default=0.25, help="share of the peak that large layers reach")
    parser.add_argument("--narrow", type=float, default=0.04, help="share that the small redshift network reaches")
    parser.add_argument("--price", type=float, default=2.0, help="dollars for an hour of the GPU")
    parser.add_argument("--core-price", type=float, default=0.04, help="dollars for an hour of a CPU core")
    options = parser.parse_args()
    with open("config.yaml", encoding="utf-8") as file:
        config = resolve(yaml.safe_load(file), "paper")

    shares = {"redshift": options.narrow}
    speed = {}
    heads = ("experiment", "runs", "PFLOP", "GFLOP/s, core", "core hours", "TFLOP/s, GPU", "GPU hours", "GPU $", "GB")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    totals = [0.0] * 4
    for name, (measured, seconds) in MEASURED.items():
        experiment = config.experiment(name)
        speed[name] = epoch_operations(name, experiment.variants[measured], config) / seconds
        gpu = options.gpu_tflops * 1e12 * shares.get(name, options.wide)
        variants = [experiment.variants[key] for key in experiment.running]
        operations = len(experiment.seeds) * sum(
            epoch_operations(name, variant, config) * variant.training.epochs for variant in variants
        )
        core_hours, gpu_hours = operations / speed[name] / 3600, operations / gpu / 3600
        size = STORE_BYTES[name] / 1e9
        totals = [a + b for a, b in zip(totals, (operations, core_hours, gpu_hours, size), strict=True)]
        runs = len(variants) * len(experiment.seeds)
        print(
            f"| {name} | {runs} | {operations / 1e15:.1f} | {speed[name] / 1e9:.0f} | {core_hours:,.0f} "
            f"| {gpu / 1e12:.1f} | {gpu_hours:.1f} | {gpu_hours * options.price:.0f} | {size:.2f} |"
        )
    operations, core_hours, gpu_hours, size = totals
    money = gpu_hours * options.price
    print(
        f"| all | | {operations / 1e15:.1f} | | {core_hours:,.0f} | | {gpu_hours:.1f} | {money:.0f} | {size:.2f} |"
        f"\n\nThe same on CPU cores: ${core_hours * options.core_price:,.0f}."
    )

    clusters = 10_000_000
    members = clusters * MEMBERS / CLUSTERS
    network = config.experiment("redshift").variants["set"]
    operations = 3 * dense([17, *network.channels, 1]) * members
    core, gpu = operations / speed["redshift"], operations / (options.gpu_tflops * 1e12 * options.narrow)
    epochs = network.training.epochs
    print(
        f"\nA survey of {clusters:,} clusters: {members / 1e6:,.0f} million members, {members * 100 / 1e9:.0f} GB as "
        f"FITS, {members * 169 / 1e9:.0f} GB prepared, of which an epoch reads {members * 72 / 1e9:.0f} GB.\n"
        f"An epoch: {operations / 1e12:.0f} TFLOP, {core / 3600:.1f} core hours, or {gpu / 60:.1f} GPU minutes.\n"
        f"{epochs} epochs: {epochs * core / 3600:.0f} core hours (${epochs * core / 3600 * options.core_price:.0f}), "
        f"or {epochs * gpu / 3600:.1f} GPU hours (${epochs * gpu / 3600 * options.price:.0f}).\n"
        f"Redshifts of all members by a trained network: {core / 3 / 3600:.1f} core hours."
    )


if __name__ == "__main__":
    main()
