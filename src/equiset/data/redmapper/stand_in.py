"""A stand-in for the redMaPPer catalogue of SDSS DR8: a simulated sky in the two FITS files of the real one.

A cluster has a redshift, a richness and members whose colours follow the red sequence at their own redshift. A
member of probability P truly belongs to the cluster with probability P; else it lies before or behind it. Noise is
added to fluxes, as in a telescope, so that errors grow with magnitude and faint magnitudes saturate as SDSS's do.
One galaxy tells its redshift poorly, its cluster tells it well: that is what a set model can gain.

The numbers below describe the real data: quantiles of the public table of clusters (version 6.3: VizieR
J/ApJS/224/1), the red sequence and the photometric errors of SDSS galaxies with spectra (the test data of the
redMaPPer software, Apache licence), and the characteristic magnitude of Rykoff et al. 2014 (ApJ 785, 104).
"""

import gzip
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
from astropy.io import fits

from equiset.data.redmapper.catalogue import BANDS, UNITS
from equiset.files import atomic_path

ORIGIN = "equiset stand-in"
"""The keyword ORIGIN of every table written here, by which it is never taken for the real one."""
_CLUSTERS_PER_BLOCK = 1000

# Every twentieth quantile of Z_LAMBDA.
_Z_QUANTILES = (
    *(0.0811, 0.1694, 0.2122, 0.2429, 0.2681, 0.2939, 0.3192, 0.3372, 0.3498, 0.3610, 0.3723),
    *(0.3845, 0.3980, 0.4112, 0.4234, 0.4366, 0.4503, 0.4682, 0.4913, 0.5212, 0.5983),
)
# By redshift: richness at the quantiles below; members at a richness of 35, the power of richness that they grow
# with, and the spread of their logarithm; error of Z_LAMBDA.
_Z_NODES = np.array([0.120, 0.177, 0.228, 0.275, 0.329, 0.374, 0.425, 0.473, 0.531])
_RICHNESS_LEVELS = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.995, 1)
_RICHNESS = np.array(
    [
        [20.0, 21.5, 24.0, 28.6, 37.6, 52.3, 75.1, 104.6, 169.8],
        [20.0, 21.3, 23.2, 27.7, 37.7, 50.8, 69.8, 104.5, 174.7],
        [19.9, 21.3, 23.1, 27.5, 37.0, 49.9, 73.0, 112.9, 199.5],
        [19.9, 21.1, 23.0, 27.7, 36.4, 49.8, 70.6, 121.8, 155.1],
        [19.8, 21.1, 22.9, 26.9, 35.2, 48.7, 71.2, 112.2, 166.2],
        [19.9, 22.0, 24.4, 29.2, 37.8, 51.4, 70.3, 122.3, 248.4],
        [21.9, 26.8, 29.6, 34.9, 44.5, 58.2, 79.9, 112.3, 299.5],
        [27.1, 33.9, 37.5, 43.8, 54.3, 70.3, 93.6, 135.9, 238.8],
        [35.4, 44.2, 49.3, 58.0, 71.2, 88.7, 113.7, 146.4, 231.0],
    ]
)
_MEMBERS_AT_35 = (49.6, 56.2, 64.2, 71.9, 79.6, 74.3, 61.0, 48.9, 39.5)
_MEMBERS_SLOPE = (0.902, 0.861, 0.831, 0.805, 0.782, 0.726, 0.655, 0.639, 0.524)
_MEMBERS_SPREAD = (0.101, 0.112, 0.113, 0.119, 0.118, 0.132, 0.145, 0.156, 0.162)
_Z_ERRORS = (0.0049, 0.0051, 0.0078, 0.0113, 0.0158, 0.0168, 0.0142, 0.0136, 0.0175)
_SMALLEST, _LARGEST = 24, 309  # members

# The red sequence: colours u-g, g-r, r-i, i-z by redshift. Its width at low redshift, where errors are small, is its
# own (with the spread of ages below); what it gains with redshift comes from the errors.
_SEQUENCE_Z = (0.05, 0.15, 0.25, 0.35, 0.45, 0.60)
_SEQUENCE = (
    (1.8425, 1.9333, 2.0180, 1.8319, 1.7155, 1.2743),
    (0.8094, 1.0804, 1.3983, 1.6296, 1.6579, 1.6293),
    (0.3889, 0.4361, 0.5215, 0.5842, 0.7389, 1.0963),
    (0.3028, 0.3317, 0.3293, 0.3644, 0.4152, 0.4790),
)
_WIDTH = np.array([0.09, 0.025, 0.017, 0.020])
_AGE_SPREAD = 0.02  # in redshift

# Errors: noise of the sky and of the photons at magnitude 20, and how much both vary; SDSS's softening of magnitudes.
_SKY_NOISE = np.array([0.0581, 0.0197, 0.0269, 0.0412, 0.1674])
_PHOTON_NOISE = np.array([0.0656, 0.0216, 0.0234, 0.0273, 0.0677])
_NOISE_SPREAD = 0.18
_SOFTENING = np.array([1.4e-10, 0.9e-10, 1.2e-10, 1.8e-10, 7.4e-10])
_POGSON = 2.5 / np.log(10)

_SURVEY_LIMIT = 21.0  # i magnitude
_DEPTH = 1.75  # magnitudes below the characteristic one, a fifth of its luminosity
_SHARED_CLUSTERS = 0.05  # of clusters overlap with the one before, and share galaxies with it
_KM_S = 299_792.458

CLUSTER_UNITS = {"RA": "deg", "DEC": "deg", "IMAG": "mag", "RA_CEN": "deg", "DEC_CEN": "deg"}

_MODEL_MAGS = [(f"MODEL_{kind}_{band}", ">f4") for band in BANDS for kind in ("MAG", "MAGERR")]
MEMBER_TYPE = np.dtype(
    [("ID", ">i4"), ("RA", ">f8"), ("DEC", ">f8")]
    + [(name, ">f4") for name in ("R", "P", "P_FREE", "THETA_I", "THETA_R", "IMAG", "IMAG_ERR")]
    + [*_MODEL_MAGS, ("Z_SPEC", ">f4"), ("OBJID", ">i8")]
)
CLUSTER_TYPE = np.dtype(
    [("ID", ">i4"), ("NAME", "S20"), ("RA", ">f8"), ("DEC", ">f8")]
    + [(name, ">f4") for name in ("Z_LAMBDA", "Z_LAMBDA_ERR", "LAMBDA", "LAMBDA_ERR", "S", "Z_SPEC")]
    + [("OBJID", ">i8"), ("IMAG", ">f4"), ("IMAG_ERR", ">f4"), *_MODEL_MAGS, ("ILUM", ">f4")]
    + [("P_CEN", ">f4", 5), ("RA_CEN", ">f8", 5), ("DEC_CEN", ">f8", 5), ("ID_CEN", ">i8", 5)]
)


def write(catalogue: Path, members: Path, clusters: int, seed: int) -> None:
    """Write the two files, compressed if their names end in .gz. Equal arguments give equal bytes."""
    sky = draw_clusters(clusters, seed)
    rows = np.concatenate(list(draw_members(sky, seed)))
    starts = np.flatnonzero(np.diff(rows["ID"], prepend=-1))
    candidates = rows[starts[:, None] + np.arange(5)]  # for the centre
    write_table(members, rows, UNITS)
    write_table(catalogue, _cluster_rows(sky, candidates, np.random.default_rng([seed, 1])), CLUSTER_UNITS)


def write_table(path: Path, rows: np.ndarray, units: Mapping[str, str]) -> None:
    """Write big-endian rows as the first extension of a FITS file; compressed if the name ends in .gz."""
    table = fits.BinTableHDU(rows)
    for number, name in enumerate(rows.dtype.names or (), 1):
        if name in units:
            table.header.set(f"TUNIT{number}", units[name], after=f"TFORM{number}")
    table.header["ORIGIN"] = (ORIGIN, "simulated, not observed")
    pack = partial(gzip.GzipFile, "", "wb", 1, mtime=0) if path.suffix == ".gz" else nullcontext
    with atomic_path(path) as temporary, temporary.open("wb") as file, pack(file) as stream:
        fits.HDUList([fits.PrimaryHDU(), table]).writeto(stream)


def draw_clusters(clusters: int, seed: int) -> dict[str, np.ndarray]:
    """Draw the clusters: what is true of them, and what the catalogue says of them."""
    rng = np.random.default_rng([seed, 0])
    # Evenly through the quantiles, so that a small stand-in follows the real distribution as well.
    level = (rng.permutation(clusters) + rng.random(clusters)) / clusters
    z = np.interp(level, np.linspace(0, 1, len(_Z_QUANTILES)), _Z_QUANTILES)
    overlapping = rng.random(clusters) < _SHARED_CLUSTERS
    overlapping[0] = False
    overlapping[1:] &= ~overlapping[:-1]
    second = np.flatnonzero(overlapping)
    z[second] = (z[second - 1] + rng.normal(0, 0.01, len(second))).clip(0.0811, 0.5983)

    level = rng.random(clusters)
    by_level = np.array([np.interp(z, _Z_NODES, column) for column in np.log(_RICHNESS).T])
    richness = np.exp([np.interp(u, _RICHNESS_LEVELS, column) for u, column in zip(level, by_level.T, strict=True)])
    typical = (richness / 35) ** np.interp(z, _Z_NODES, _MEMBERS_SLOPE) * np.interp(z, _Z_NODES, _MEMBERS_AT_35)
    spread = np.exp(np.interp(z, _Z_NODES, _MEMBERS_SPREAD) * rng.standard_normal(clusters))
    members = np.rint(typical * spread).clip(_SMALLEST, _LARGEST).astype(int)
    error = np.interp(z, _Z_NODES, _Z_ERRORS) * np.exp(0.1 * rng.standard_normal(clusters))
    south = rng.random(clusters) < 0.2
    ra = np.where(south, rng.uniform(-45, 45, clusters), rng.uniform(110, 260, clusters)) % 360
    dec = np.degrees(np.arcsin(rng.uniform(np.sin(np.radians(-10)), np.sin(np.radians(np.where(south, 30, 65))))))
    radius = (richness / 100) ** 0.2
    # Half a radius to the east of the cluster before.
    ra[second] = (ra[second - 1] + 0.5 * radius[second] * _degrees_per_mpc(z[second])) % 360
    dec[second] = dec[second - 1]
    return {
        "ID": np.cumsum(rng.geometric(0.5, clusters)),
        "z": z - error * rng.standard_normal(clusters),
        "Z_LAMBDA": z,
        "Z_LAMBDA_ERR": error,
        "LAMBDA": richness,
        "members": members,
        "RA": ra,
        "DEC": dec,
        "radius": radius,
        "overlapping": overlapping,
    }


def draw_members(sky: dict[str, np.ndarray], seed: int) -> Iterator[np.ndarray]:
    """Draw the members, a block of whole clusters at a time, in the order of the clusters."""
    for start in range(0, len(sky["ID"]), _CLUSTERS_PER_BLOCK):
        part = {name: values[start : start + _CLUSTERS_PER_BLOCK] for name, values in sky.items()}
        yield _draw_block(part, np.random.default_rng([seed, 2, start]), first=int(sky["members"][:start].sum()))


def _draw_block(sky: dict[str, np.ndarray], rng: np.random.Generator, first: int) -> np.ndarray:
    counts = sky["members"]
    host = np.repeat(np.arange(len(counts)), counts)
    n = len(host)
    z_host, radius = sky["z"][host], sky["radius"][host]
    # Probabilities whose sum is the richness, as far as probabilities go; the rest is what masks hide.
    mean = (sky["LAMBDA"] / counts).clip(0.35, 0.8)[host]
    p = rng.beta(1.3 * mean / (1 - mean), 1.3)
    belongs = rng.random(n) < p
    speed = 700 * radius * rng.standard_normal(n)  # km/s, larger in richer clusters
    before_or_behind = 0.038 * rng.laplace(size=n)
    z = z_host + (1 + z_host) * np.where(belongs, speed / _KM_S, before_or_behind)
    z = (np.abs(z - 0.03) + 0.03).clip(max=0.8)

    limit = np.minimum(_characteristic_magnitude(z_host) + _DEPTH, _SURVEY_LIMIT)
    i = _characteristic_magnitude(z) + _draw_schechter(limit - _characteristic_magnitude(z), rng)
    # A galaxy is in the list because it looks as red as the cluster: one that does not belong shows a quarter of its
    # distance from it. And every galaxy is a little older or younger, which moves all its colours along the sequence.
    looks = np.where(belongs, z, z_host + (z - z_host) / 4) + _AGE_SPREAD * rng.standard_normal(n)
    colours = np.stack([np.interp(looks, _SEQUENCE_Z, colour) for colour in _SEQUENCE], 1)
    colours += rng.standard_normal((n, 4)) * _WIDTH
    g_r, r_i = colours[:, 1], colours[:, 2]
    true = np.stack([i + r_i + g_r + colours[:, 0], i + r_i + g_r, i + r_i, i, i - colours[:, 3]], 1)
    magnitudes, errors = _observe(true, rng)

    rows = np.zeros(n, MEMBER_TYPE)
    rows["ID"] = sky["ID"][host]
    # Those that belong crowd in the middle, the others do not.
    away = radius * np.where(belongs, rng.random(n) ** 0.8, np.sqrt(rng.random(n)))
    angle = rng.uniform(0, 2 * np.pi, n)
    away[np.cumsum(counts) - counts] = 0
    # A length in the catalogue is an angle at the catalogue's own redshift, which is not the true one.
    shift = away * _degrees_per_mpc(sky["Z_LAMBDA"][host])
    dec = sky["DEC"][host] + shift * np.sin(angle)
    rows["RA"] = (sky["RA"][host] + shift * np.cos(angle) / np.cos(np.radians(dec))) % 360
    rows["DEC"], rows["R"], rows["P"] = dec, away, p
    rows["P_FREE"] = (p * rng.uniform(0.85, 1, n)).clip(0, 1)
    rows["THETA_I"] = (1 / (1 + np.exp((i - limit + 0.1) / 0.08))).clip(0.01, 1)
    rows["THETA_R"] = (1 / (1 + np.exp((away / radius - 0.97) / 0.02))).clip(0.01, 1)
    rows["IMAG"] = magnitudes[:, 3] + rng.normal(-0.03, 0.03, n)
    rows["IMAG_ERR"] = errors[:, 3] * rng.uniform(0.95, 1.1, n)
    for band, name in enumerate(BANDS):
        rows[f"MODEL_MAG_{name}"], rows[f"MODEL_MAGERR_{name}"] = magnitudes[:, band], errors[:, band]
    measured = rng.random(n) < _spectroscopy(magnitudes[:, 2], magnitudes[:, 3])
    rows["Z_SPEC"] = np.where(measured, z, -1)
    rows["OBJID"] = 1_237_645_876_861_272_065 + 7 * (first + np.arange(n))
    _share(rows, sky, rng)
    return rows


def _observe(true: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Add noise to the fluxes, and return SDSS's asinh magnitudes with their errors."""
    flux = 10 ** (-0.4 * true)
    photons = _PHOTON_NOISE * 10 ** (0.2 * (true - 20))
    sky = _SKY_NOISE * 10 ** (0.4 * (true - 20))
    noise = flux / _POGSON * np.hypot(photons, sky) * np.exp(_NOISE_SPREAD * rng.standard_normal(true.shape))
    seen = flux + noise * rng.standard_normal(true.shape)
    magnitudes = -_POGSON * (np.arcsinh(seen / (2 * _SOFTENING)) + np.log(_SOFTENING))
    return magnitudes, _POGSON * noise / np.sqrt(seen**2 + 4 * _SOFTENING**2)


def _spectroscopy(r: np.ndarray, i: np.ndarray) -> np.ndarray:
    """Return how likely a galaxy has a spectrum: nearly all bright ones, some luminous red ones, no faint ones."""
    return 0.6 / (1 + np.exp((r - 17.8) / 0.1)) + 0.15 / (1 + np.exp((i - 19.7) / 0.2)) * (r > 17.8)


def _share(rows: np.ndarray, sky: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """Let overlapping clusters hold galaxies of the cluster before: the same galaxy, with its own P and R there."""
    ends = np.cumsum(sky["members"])
    own = ("ID", "P", "P_FREE", "THETA_I", "THETA_R")
    common = [name for name in rows.dtype.names if name not in own]
    for second in np.flatnonzero(sky["overlapping"][1:]) + 1:
        shared = int(rng.integers(3, 9))
        here = np.arange(ends[second] - shared, ends[second])
        before = np.arange(ends[second - 1] - shared, ends[second - 1])
        for name in common:
            rows[name][here] = rows[name][before]
        east = (rows["RA"][here] - sky["RA"][second] + 180) % 360 - 180
        east = east * np.cos(np.radians(sky["DEC"][second]))
        north = rows["DEC"][here] - sky["DEC"][second]
        rows["R"][here] = np.hypot(east, north) / _degrees_per_mpc(sky["Z_LAMBDA"][[second]])


def _cluster_rows(sky: dict[str, np.ndarray], top: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n = len(top)
    rows = np.zeros(n, CLUSTER_TYPE)
    for name in ("ID", "Z_LAMBDA", "Z_LAMBDA_ERR", "LAMBDA", "RA", "DEC"):
        rows[name] = sky[name]
    rows["NAME"] = [f"RMJ{ra / 15:09.5f}{dec:+09.5f}".encode() for ra, dec in zip(rows["RA"], rows["DEC"], strict=True)]
    rows["LAMBDA_ERR"] = sky["LAMBDA"] * np.interp(sky["Z_LAMBDA"], (0.1, 0.35, 0.55), (0.075, 0.113, 0.22))
    rows["S"] = (sky["LAMBDA"] / sky["members"] / 0.8).clip(1)
    for name in ("Z_SPEC", "OBJID", "IMAG", "IMAG_ERR", *(name for name, _ in _MODEL_MAGS)):
        rows[name] = top[name][:, 0]
    rows["ILUM"] = sky["LAMBDA"] * rng.uniform(0.8, 1.2, n)
    weight = rng.gamma((8, 0.6, 0.3, 0.2, 0.1), size=(n, 5))
    weight[:, 1:] = -np.sort(-weight[:, 1:], axis=1)
    rows["P_CEN"] = weight / weight.sum(1, keepdims=True)
    rows["RA_CEN"], rows["DEC_CEN"], rows["ID_CEN"] = top["RA"], top["DEC"], top["OBJID"]
    return rows


def _characteristic_magnitude(z: np.ndarray) -> np.ndarray:
    """Return the i magnitude of a galaxy of the characteristic luminosity (Rykoff et al. 2014)."""
    return np.polyval((-0.0227, -0.0618, 0.273, 3.36, 22.44), np.log(z))


def _draw_schechter(faintest: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw magnitudes, relative to the characteristic one, from a Schechter function of slope -1 cut at `faintest`."""
    grid = np.linspace(-2.5, 6, 500)
    chance = np.cumsum(np.exp(-(10 ** (-0.4 * grid))))
    upto = np.interp(faintest, grid, chance)
    return np.interp(rng.random(len(faintest)) * upto, chance, grid)


def _degrees_per_mpc(z: np.ndarray) -> np.ndarray:
    """Return the angle of one Mpc/h in a flat universe with a matter density of 0.3."""
    grid = np.linspace(0, 1, 201)
    step = 1 / np.sqrt(0.3 * (1 + grid) ** 3 + 0.7)
    distance = _KM_S / 100 * np.concatenate([[0], np.cumsum((step[1:] + step[:-1]) / 2) * grid[1]])
    return np.degrees(1) * (1 + z) / np.interp(z, grid, distance)
