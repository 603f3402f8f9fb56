"""What training reads of redMaPPer's two tables: the members of each cluster, one after the other, as arrays."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from equiset.data.manifest import about, paths_in
from equiset.data.redmapper.catalogue import FEATURES, centres_of, features_of, read_clusters, read_members, unmeasured
from equiset.files import write_json

log = logging.getLogger(__name__)


def write_store(manifest: dict[str, Any], folder: Path) -> None:
    """Write the tables as Parquet, and the members as packed sets: `features.npy`, `z_spec.npy`, `offsets.npy`.

    Set i is the rows offsets[i] to offsets[i + 1] of the arrays, the members of row i of `clusters.parquet`. `features`
    holds the columns `FEATURES` as float32, NaN where not measured, and `z_spec` the spectroscopic redshifts, NaN where
    there is none.
    """
    paths = paths_in(manifest)
    clusters = read_clusters(paths["catalogue"])
    ids = clusters["ID"].to_numpy().astype(np.int64)
    members = read_members(paths["members"], ids)
    offsets = np.append(np.searchsorted(members["ID"].to_numpy(), ids), len(members))
    (z_spec,) = features_of(members, ["Z_SPEC"]).T
    arrays = {"features": features_of(members), "z_spec": z_spec, "offsets": offsets}
    spectra = np.add.reduceat(~np.isnan(z_spec), offsets[:-1], dtype=np.int64)
    clusters = clusters.select([name for name in clusters.column_names if name not in ("MEMBERS", "SPECTROSCOPIC")])
    clusters = clusters.append_column("MEMBERS", pa.array(np.diff(offsets)))
    clusters = clusters.append_column("SPECTROSCOPIC", pa.array(spectra))

    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    for name, role, table in (("clusters", "catalogue", clusters), ("members", "members", members)):
        origin = {key: manifest[key] for key in ("source", "description")} | {
            "file": paths[role].name,
            "sha256": manifest["files"][role]["sha256"],
            "null": "Z_SPEC of -1, and magnitudes that were not measured",
        }
        table = table.replace_schema_metadata({"equiset": json.dumps(origin, sort_keys=True)})
        # Measurements hardly repeat: dictionaries would take time and space, and compression would make the file 7 %
        # smaller for twice the time.
        pq.write_table(table, folder / f"{name}.parquet", use_dictionary=["ID"], compression="none")
    # Of all values that are read again, and not of the files, whose bytes depend on pyarrow's version.
    galaxies = members["OBJID"]
    read_again = [ids, clusters["Z_LAMBDA"].to_numpy(), centres_of(clusters), *arrays.values()]
    read_again += [galaxies.is_valid().to_numpy(), galaxies.fill_null(0).to_numpy()]
    sha256 = hashlib.sha256()
    for array in read_again:
        sha256.update(np.ascontiguousarray(array))
    store = about(manifest) | {
        "clusters": len(clusters),
        "members": len(members),
        "spectroscopic": int(spectra.sum()),
        "unmeasured": unmeasured(members),
        "features": list(FEATURES),
        "digest": sha256.hexdigest(),
    }
    write_json(folder / "store.json", store)
    log.info("%s: %d clusters, %d members", store["description"], store["clusters"], store["members"])
