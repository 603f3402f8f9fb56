"""redMaPPer's clusters of galaxies in SDSS DR8: where the two tables come from, and what training reads of them."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from equiset.config.settings import Settings
from equiset.data.download import download, limits
from equiset.data.manifest import checked, make_manifest, own_folder, stand_in_advice
from equiset.data.redmapper.catalogue import FEATURES, MEMBER_COLUMNS, convert_members, read_clusters
from equiset.data.redmapper.fits import open_table
from equiset.data.source import Address, Kind, SourceSettings, StandIn
from equiset.errors import EquisetError
from equiset.files import digest, read_json, write_json

log = logging.getLogger(__name__)

FILES = {
    "catalogue": "redmapper_dr8_public_v6.3_catalog.fits.gz",
    "members": "redmapper_dr8_public_v6.3_members.fits.gz",
}
CLUSTERS, MEMBERS = 26_111, 1_703_685  # of version 6.3
_PATTERNS = {"catalogue": "*catalog*.fit*", "members": "*members*.fit*"}


class StandInSize(StandIn):
    """How much of the stand-in to make."""

    clusters: int = Field(CLUSTERS, ge=20)
    """Number of clusters; they have 65 members on average."""


class RedmapperSettings(SourceSettings):
    """Where redMaPPer's catalogue comes from."""

    name: ClassVar[str] = "redmapper"
    holds: ClassVar[str] = "the two files"
    endings: ClassVar[tuple[str, ...]] = (".fit", ".fits", ".fit.gz", ".fits.gz")
    depth: ClassVar[int] = 1

    folder: str | None = None
    """With `source: folder`, the folder of the two FITS files, compressed or not."""
    mirrors: list[Address] = Field(
        ["https://risa.stanford.edu/redmapper/v6.3/", "http://risa.stanford.edu/redmapper/v6.3/"]
    )
    """Addresses that hold the two files, tried in this order."""
    stand_in: StandInSize = StandInSize()
    """Size and seed of the stand-in."""


SETTINGS = RedmapperSettings


def fetch(settings: RedmapperSettings, cache: Path) -> dict[str, Any]:
    """Bring, find or make the two FITS files, and return the manifest that names them."""
    kind: Kind = "whole"
    description = "redMaPPer SDSS DR8 v6.3"
    if settings.source == "download":
        paths = _download(settings, cache / "v6.3")
    elif settings.source == "folder":
        paths = _find(own_folder(settings))
        if difference := _difference(paths):
            kind, description = "own", "own data in the layout of redMaPPer"
            if _is_stand_in(paths["catalogue"]):
                kind, description = "stand-in", "stand-in for redMaPPer: a simulated catalogue"
            log.warning("%s: %s; results on them are not the paper's", settings.folder, difference)
    else:
        paths = _make_stand_in(settings.stand_in, cache)
        clusters = f"{settings.stand_in.clusters:,} clusters"
        kind, description = "stand-in", f"stand-in for redMaPPer: a simulated catalogue of {clusters}"
    return make_manifest(settings, paths, kind, description)


def prepare(manifest: dict[str, Any], folder: Path, settings: Settings | None = None, threads: int = 1) -> None:
    """Write the tables as Parquet, and the members as packed sets: `features.npy`, `z_spec.npy`, `offsets.npy`.

    Set i is the rows offsets[i] to offsets[i + 1] of the arrays, the members of row i of `clusters.parquet`. Settings
    and threads have no influence: one pass over the files is bound by decompression.
    """
    store, paths = checked(manifest, "redmapper", FILES)
    folder.mkdir(parents=True, exist_ok=True)
    clusters = read_clusters(paths["catalogue"])
    about = {"null": "Z_SPEC of -1, and magnitudes that were not measured"}
    about |= {key: store[key] for key in ("source", "description")}
    abouts = {
        role: about | {"file": path.name, "sha256": manifest["files"][role]["sha256"]} for role, path in paths.items()
    }
    counts = convert_members(paths["members"], clusters["ID"].to_numpy(), folder, abouts["members"])
    clusters = clusters.append_column("MEMBERS", pa.array(counts.members))
    clusters = clusters.append_column("SPECTROSCOPIC", pa.array(counts.spectroscopic))
    pq.write_table(
        clusters.replace_schema_metadata({"equiset": json.dumps(abouts["catalogue"], sort_keys=True)}),
        folder / "clusters.parquet",
    )
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(counts.members)]))
    sha256 = hashlib.sha256()
    for name in ("clusters.parquet", "members.parquet"):
        sha256.update(bytes.fromhex(digest(folder / name)))
    store |= {
        "clusters": len(clusters),
        "members": int(counts.members.sum()),
        "spectroscopic": int(counts.spectroscopic.sum()),
        "unmeasured": counts.unmeasured,
        "features": list(FEATURES),
        "digest": sha256.hexdigest(),
    }
    write_json(folder / "store.json", store)
    log.info("%s: %d clusters, %d members", store["description"], store["clusters"], store["members"])


def _download(settings: RedmapperSettings, folder: Path) -> dict[str, Path]:
    """Bring the files. No checksums are published: the first download with the right content records its own."""
    registry = folder / "checksums.json"
    known = read_json(registry) if registry.is_file() else {}
    paths = {role: folder / name for role, name in FILES.items()}
    for role, path in paths.items():
        try:
            addresses = [f"{mirror.rstrip('/')}/{path.name}" for mirror in settings.mirrors]
            sums = {"sha256": known[role]} if role in known else {}
            download(path.name, addresses, path, checksums=sums, **limits(settings))
        except EquisetError as error:
            raise EquisetError(f"{error}. {stand_in_advice(settings)}") from None
    if known.keys() != FILES.keys():
        try:
            fault = _difference(paths)
            for path in paths.values():
                with open_table(path) as table:
                    for _ in table.blocks():  # to the end, where a damaged file shows
                        pass
        except EquisetError as error:
            fault = str(error)
        if fault:
            for path in paths.values():
                path.unlink()
            raise EquisetError(f"the download is not redMaPPer's catalogue: {fault}. It was removed; try again.")
        write_json(registry, {role: digest(path) for role, path in paths.items()})
    return paths


def _find(folder: Path) -> dict[str, Path]:
    """Find the two files in a folder, by their own names or by the words `catalog` and `members`."""
    found = {}
    for role, name in FILES.items():
        exact = [folder / name, folder / name.removesuffix(".gz")]
        choice = [path for path in exact if path.is_file()][:1] or sorted(folder.glob(_PATTERNS[role]))
        if len(choice) != 1:
            problem = "lacks" if not choice else "holds several files that may be"
            raise EquisetError(
                f"datasets.redmapper.folder: {folder} {problem} {name} (with or without .gz); "
                f"other names must match {_PATTERNS[role]} alone"
            )
        found[role] = choice[0]
    return found


def _difference(paths: dict[str, Path]) -> str | None:
    """Say in what the files differ from version 6.3 of the real catalogue, as far as their headers show it."""
    if _is_stand_in(paths["catalogue"]):
        return "these files are simulated"
    with open_table(paths["catalogue"]) as table:
        clusters = table.rows
    with open_table(paths["members"]) as table:
        members, columns = table.rows, set(table.columns)
    if (clusters, members) != (CLUSTERS, MEMBERS):
        return f"these files hold {clusters} clusters and {members} members, not {CLUSTERS} and {MEMBERS}"
    if columns != set(MEMBER_COLUMNS):
        return f"the members have other columns: {', '.join(sorted(columns ^ set(MEMBER_COLUMNS)))}"
    return None


def _is_stand_in(catalogue: Path) -> bool:
    with open_table(catalogue) as table:
        return "stand-in" in str(table.header.get("ORIGIN"))


def _make_stand_in(size: StandInSize, cache: Path) -> dict[str, Path]:
    from equiset.data.redmapper import stand_in

    folder = cache / f"redmapper-stand-in-{size.clusters}-{size.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {role: folder / name for role, name in FILES.items()}
    log.info("simulating a catalogue of %d clusters", size.clusters)
    stand_in.write(paths["catalogue"], paths["members"], size.clusters, size.seed)
    return paths
