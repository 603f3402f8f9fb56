"""redMaPPer's clusters of galaxies in SDSS DR8: where the two tables come from, and what training reads of them."""

import logging
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from equiset.config.settings import Settings
from equiset.data.download import download
from equiset.data.manifest import RawFiles, make_manifest, own_folder, stand_in_advice
from equiset.data.source import Address, Kind, SourceSettings, StandIn
from equiset.errors import EquisetError
from equiset.files import digest, read_json, write_json

log = logging.getLogger(__name__)

FILES = {
    "catalogue": "redmapper_dr8_public_v6.3_catalog.fits.gz",
    "members": "redmapper_dr8_public_v6.3_members.fits.gz",
}
CLUSTERS, MEMBERS = 26_111, 1_703_685  # of version 6.3
_WORDS = {"catalogue": "catalog", "members": "members"}
_SIMULATED = "these files are simulated"
_ENDINGS = (".fit", ".fits", ".fit.gz", ".fits.gz")


class StandInSize(StandIn):
    """How much of the stand-in to make."""

    clusters: int = Field(CLUSTERS, ge=20)
    """Number of clusters; they have 65 members on average."""


class RedmapperSettings(SourceSettings):
    """Where redMaPPer's catalogue comes from."""

    name: ClassVar[str] = "redmapper"
    holds: ClassVar[str] = "the two files"

    folder: str | None = None
    """With `source: folder`, the folder of the two FITS files, compressed or not."""
    mirrors: list[Address] = Field(
        ["https://risa.stanford.edu/redmapper/v6.3/", "http://risa.stanford.edu/redmapper/v6.3/"]
    )
    """Addresses that hold the two files, tried in this order."""
    stand_in: StandInSize = StandInSize()
    """Size and seed of the stand-in."""


SETTINGS = RedmapperSettings


def find(folder: Path) -> RawFiles:
    """Find the two files in a folder, by their own names or by the words `catalog` and `members`."""
    files: RawFiles = {}
    for role, name in FILES.items():
        similar = [path for path in sorted(folder.glob(f"*{_WORDS[role]}*")) if path.name.lower().endswith(_ENDINGS)]
        similar = [path for path in similar if not path.name.startswith(".")]
        files[role] = [path for path in similar if path.name in (name, name.removesuffix(".gz"))] or similar
        if len(files[role]) != 1:
            several = f"holds several files that may be {name}: {', '.join(path.name for path in files[role])}"
            raise EquisetError(
                f"datasets.redmapper.folder: {folder} {several if similar else f'lacks {name} (with or without .gz)'}. "
                f"A file of another name must be the only one with the word {_WORDS[role]}, and end in "
                f"{', '.join(_ENDINGS)}"
            )
    return files


def fetch(settings: RedmapperSettings, cache: Path) -> dict[str, Any]:
    """Download, find or make the two FITS files, and return the manifest that names them."""
    kind: Kind = "whole"
    description = "redMaPPer SDSS DR8 v6.3"
    if settings.source == "download":
        files = _download(settings, cache / "v6.3")
    elif settings.source == "folder":
        files = find(own_folder(settings))
        if difference := _difference(files):
            kind, description = "own", "own data in the layout of redMaPPer"
            if difference == _SIMULATED:
                kind, description = "stand-in", "stand-in for redMaPPer: a simulated catalogue"
            log.warning("%s: %s; results on them are not the paper's", settings.folder, difference)
    else:
        files = _make_stand_in(settings.stand_in, cache)
        clusters = f"{settings.stand_in.clusters:,} clusters"
        kind, description = "stand-in", f"stand-in for redMaPPer: a simulated catalogue of {clusters}"
    return make_manifest(settings, cache, files, kind, description)


def prepare(manifest: dict[str, Any], folder: Path, settings: Settings | None = None, threads: int = 1) -> None:
    """Write tables, arrays and `store.json` into `folder`. Settings and threads have no influence."""
    from equiset.data.redmapper.store import write_store  # pyarrow and astropy, which nobody needs to read a config

    write_store(manifest, folder)


def _download(settings: RedmapperSettings, folder: Path) -> RawFiles:
    """Download the files. No checksums are published: the first download with the right content records its own."""
    registry = folder / "checksums.json"
    known = read_json(registry) if registry.is_file() else {}
    files = {role: [folder / name] for role, name in FILES.items()}
    for role, (path,) in files.items():
        urls = [f"{mirror.rstrip('/')}/{path.name}" for mirror in settings.mirrors]
        try:
            download(settings, urls, path, f"sha256:{known[role]}" if role in known else None)
        except EquisetError as error:
            raise EquisetError(f"{error}. {stand_in_advice(settings)}") from None
    if known.keys() != FILES.keys():
        try:
            fault = _difference(files)
        except EquisetError as error:
            fault = str(error)
        if fault:
            for (path,) in files.values():
                path.unlink()
            raise EquisetError(f"the download is not redMaPPer's catalogue: {fault}. It was removed; try again.")
        write_json(registry, {role: digest(path) for role, (path,) in files.items()})
    return files


def _difference(files: RawFiles) -> str | None:
    """Say in what the files differ from version 6.3 of the real catalogue, as far as their headers show it."""
    from equiset.data.redmapper.catalogue import MEMBER_COLUMNS, open_table

    clusters, members = (open_table(files[role][0]) for role in FILES)
    if "stand-in" in str(clusters.header.get("ORIGIN")):
        return _SIMULATED
    rows = clusters.header["NAXIS2"], members.header["NAXIS2"]
    if rows != (CLUSTERS, MEMBERS):
        return f"these files hold {rows[0]} clusters and {rows[1]} members, not {CLUSTERS} and {MEMBERS}"
    if other := {name.upper() for name in members.columns.names} ^ {*MEMBER_COLUMNS, "THETA_I", "THETA_R"}:
        return f"the members have other columns: {', '.join(sorted(other))}"
    return None


def _make_stand_in(size: StandInSize, cache: Path) -> RawFiles:
    from equiset.data.redmapper import stand_in

    folder = cache / f"redmapper-stand-in-{size.clusters}-{size.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    files = {role: [folder / name] for role, name in FILES.items()}
    log.info("simulating a catalogue of %d clusters", size.clusters)
    stand_in.write(files["catalogue"][0], files["members"][0], size.clusters, size.seed)
    return files
