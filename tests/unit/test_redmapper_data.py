"""FITS to Parquet: tables made by other hands, and every way in which files can be wrong."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from astropy.io import fits
from hypothesis import given, settings
from hypothesis import strategies as st

from equiset.data import redmapper
from equiset.data.redmapper import FILES, RedmapperSettings, fetch, find, prepare
from equiset.data.redmapper.catalogue import FEATURES, MAGNITUDES, MEMBER_COLUMNS, open_table, read_table
from equiset.errors import EquisetError
from equiset.experiments.redshift.sets import shared_rows
from equiset.files import read_json

SIZES = (3, 1, 5, 2)
IDS = np.array([2, 5, 9, 11])


def member_values(sizes=SIZES, ids=IDS, seed=0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    values = {name: rng.uniform(0.1, 0.9, n).astype(np.float32) for name in MEMBER_COLUMNS}
    values |= {name: rng.uniform(15, 22, n).astype(np.float32) for name in ("IMAG", *MAGNITUDES[:5])}
    values |= {"ID": np.repeat(ids, sizes).astype(np.int32), "OBJID": 10**18 + np.arange(n)}
    values |= {"RA": rng.uniform(0, 360, n), "DEC": rng.uniform(-10, 60, n)}
    values["Z_SPEC"][::2] = -1
    return values


def cluster_values(ids=IDS) -> dict[str, np.ndarray]:
    n = len(ids)
    return {
        "ID": np.asarray(ids, np.int32),
        "NAME": np.array([f"RMJ{i}" for i in ids], "S20"),
        "Z_LAMBDA": np.linspace(0.1, 0.5, n, dtype=np.float32),
        "P_CEN": np.tile(np.array([0.8, 0.1, 0.05, 0.03, 0.02], np.float32), (n, 1)),
    }


def write(path: Path, values: dict[str, np.ndarray]) -> Path:
    """Write a table with astropy alone; it pads texts, swaps bytes and compresses on its own."""
    formats = {"i4": "J", "i8": "K", "f4": "E", "f8": "D", "S20": "20A", "S5": "5A", "b1": "L"}
    columns = []
    for name, array in values.items():
        form = formats[array.dtype.str.lstrip("<>|=")]
        form = f"{array.shape[1]}{form}" if array.ndim == 2 else form
        columns.append(fits.Column(name, form, unit="mag" if name.startswith("MODEL_MAG_") else None, array=array))
    fits.HDUList([fits.PrimaryHDU(), fits.BinTableHDU.from_columns(columns)]).writeto(path)
    return path


def write_pair(folder: Path, members=None, clusters=None, ending=".fits.gz") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / f"my_members{ending}", members or member_values())
    write(folder / f"my_catalog{ending}", clusters or cluster_values())
    return folder


def prepared(folder: Path, out: Path) -> Path:
    prepare(fetch(RedmapperSettings(source="folder", folder=str(folder)), folder), out)
    return out


# What goes through


def with_null(path: Path, column: str, value: int) -> None:
    """Let a value of an integer column mean that there is none."""
    with fits.open(path, mode="update") as hdus:
        number = hdus[1].columns.names.index(column) + 1
        hdus[1].header[f"TNULL{number}"] = value


def test_numbers_of_18_digits_stay_apart_beside_a_null(tmp_path):
    members = member_values()
    folder = write_pair(tmp_path / "raw", members, ending=".fits")
    with_null(folder / "my_members.fits", "OBJID", int(members["OBJID"][4]))
    column = pq.read_table(prepared(folder, tmp_path / "store") / "members.parquet")["OBJID"]
    assert str(column.type) == "int64"
    assert column.null_count == 1
    assert len(set(column.drop_null().to_pylist())) == 10
    known = column.is_valid().to_numpy()
    splits = np.array([0] * 9 + [2] * 2)
    assert shared_rows(column.fill_null(0).to_numpy(), splits, known).size == 0


def test_a_row_without_its_cluster_is_said(tmp_path):
    folder = write_pair(tmp_path / "raw", ending=".fits")
    with_null(folder / "my_members.fits", "ID", 5)
    with pytest.raises(EquisetError, match=r"holds 1 rows whose cluster \(ID\) is null"):
        prepared(folder, tmp_path / "store")


def test_numbers_of_clusters_may_be_negative(tmp_path):
    ids = np.array([-5, -2, 0, 7])
    folder = write_pair(tmp_path / "raw", member_values(ids=ids), cluster_values(ids), ending=".fits")
    store = prepared(folder, tmp_path / "store")
    assert pq.read_table(store / "clusters.parquet")["ID"].to_pylist() == ids.tolist()


def test_a_probability_that_is_no_number_is_named_with_its_cluster(tmp_path):
    clusters = cluster_values()
    clusters["P_CEN"][2, 1] = np.nan
    with pytest.raises(EquisetError, match="holds a P_CEN that is no number, of the cluster 9"):
        prepared(write_pair(tmp_path / "raw", clusters=clusters), tmp_path / "store")


def test_members_may_be_in_a_later_table_of_the_file(tmp_path):
    folder = write_pair(tmp_path / "raw", ending=".fits")
    with fits.open(folder / "my_members.fits") as hdus:
        other = fits.BinTableHDU.from_columns([fits.Column("REMARK", "J", array=np.arange(3))])
        fits.HDUList([hdus[0], other, hdus[1]]).writeto(folder / "both.fits")
    (folder / "both.fits").replace(folder / "my_members.fits")
    assert read_json(prepared(folder, tmp_path / "store") / "store.json")["members"] == 11


@pytest.mark.parametrize("ending", [".fits", ".fits.gz", ".fit"])
def test_tables_made_by_other_hands(tmp_path, ending):
    members = member_values()
    # A column that nobody knows, lower case names, another order.
    members = {"surprise": np.full(11, b"abc", "S5"), "flag": np.arange(11) % 2 == 0} | {
        name.lower(): values for name, values in reversed(members.items())
    }
    clusters = cluster_values() | {"MEMBERS": np.zeros(4, np.int32)}  # which is counted here
    out = prepared(write_pair(tmp_path / "mine", members, clusters, ending), tmp_path / "out")
    table = pq.read_table(out / "members.parquet")
    for name in MEMBER_COLUMNS:
        expected = members[name.lower()]
        if name == "Z_SPEC":
            assert table[name].null_count == 6
            assert np.array_equal(table[name].to_numpy(), np.where(expected == -1, np.nan, expected), equal_nan=True)
        else:
            assert np.array_equal(table[name].to_numpy(), expected)
            assert table[name].type == {"i": "int32", "f": "float", "d": "double", "l": "int64"}[expected.dtype.char]
    assert table["SURPRISE"].to_pylist() == ["abc"] * 11
    assert table["FLAG"].to_pylist() == (np.arange(11) % 2 == 0).tolist()
    assert table.field("MODEL_MAG_G").metadata == {b"unit": b"mag"}
    about = json.loads(table.schema.metadata[b"equiset"])
    assert about["file"] == f"my_members{ending}"
    features, offsets = np.load(out / "features.npy"), np.load(out / "offsets.npy")
    assert offsets.tolist() == [0, 3, 4, 9, 11]
    assert np.array_equal(features, np.stack([members[name.lower()].astype(np.float32) for name in FEATURES], 1))
    clusters = pq.read_table(out / "clusters.parquet")
    assert clusters["NAME"].to_pylist() == ["RMJ2", "RMJ5", "RMJ9", "RMJ11"]
    assert clusters["MEMBERS"].to_pylist() == list(SIZES)
    spectra = ~np.isnan(np.load(out / "z_spec.npy"))
    assert clusters["SPECTROSCOPIC"].to_pylist() == [int(part.sum()) for part in np.split(spectra, offsets[1:-1])]
    store = read_json(out / "store.json")
    assert (store["clusters"], store["members"], store["spectroscopic"]) == (4, 11, 5)
    assert (store["kind"], store["share"]) == ("own", 0.0)
    assert "own data" in store["description"]


@settings(max_examples=10, deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8), seed=st.integers(0, 100))
def test_members_in_any_order_are_sorted_by_cluster(tmp_path_factory, sizes, seed):
    folder = tmp_path_factory.mktemp("any")
    ids = 3 * np.arange(len(sizes)) + 1
    members = member_values(sizes, ids)
    members["Z_SPEC"][:] = 0.25
    rng = np.random.default_rng(seed)
    order, clusters = rng.permutation(sum(sizes)), cluster_values(rng.permutation(ids))
    write_pair(folder / "raw", {name: values[order] for name, values in members.items()}, clusters, ".fits")
    out = prepared(folder / "raw", folder / "out")
    expected = order[np.argsort(members["ID"][order], kind="stable")]
    assert np.array_equal(pq.read_table(out / "members.parquet")["OBJID"].to_numpy(), members["OBJID"][expected])
    assert np.array_equal(np.load(out / "features.npy")[:, 0], members["RA"][expected].astype(np.float32))
    assert np.diff(np.load(out / "offsets.npy")).tolist() == sizes
    assert pq.read_table(out / "clusters.parquet")["ID"].to_pylist() == ids.tolist()


def test_magnitudes_that_were_not_measured_become_null(tmp_path, caplog):
    members = member_values()
    members["MODEL_MAG_U"][3], members["MODEL_MAGERR_U"][4] = -9999, np.nan
    out = prepared(write_pair(tmp_path / "mine", members), tmp_path / "out")
    assert read_json(out / "store.json")["unmeasured"] == {"MODEL_MAG_U": 1, "MODEL_MAGERR_U": 1}
    features = np.load(out / "features.npy")
    assert np.isnan(features).sum() == 2
    assert np.isnan(features[3, FEATURES.index("MODEL_MAG_U")])
    assert "not measured" in caplog.text


def test_unsigned_scaled_and_null_columns(tmp_path):
    table = fits.BinTableHDU.from_columns(
        [
            fits.Column("BIG", "J", array=np.array([0, 2**32 - 1], np.uint32), bzero=2**31),
            fits.Column("HALVES", "E", array=np.array([1, 3], np.float32)),
            fits.Column("HOLES", "J", array=np.array([7, -99]), null=-99),
            fits.Column("SCALED", "I", array=np.array([100, -99]), null=-99),
            fits.Column("PAIRS", "2I", array=np.array([[1, -99], [2, 3]]), null=-99),
            fits.Column("COMPLEX", "C", array=np.array([1j, 2j])),
        ]
    )
    table.header["TSCAL2"], table.header["TSCAL4"], table.header["TZERO4"] = 0.5, 0.01, -1.0
    table.writeto(tmp_path / "table.fits")
    assert read_table(tmp_path / "table.fits", ()).to_pydict() == {
        "BIG": [0, 2**32 - 1],
        "HALVES": [0.5, 1.5],
        "HOLES": [7, None],
        "SCALED": [0.0, None],
        "PAIRS": [[1, None], [2, 3]],
    }


def test_magnitudes_may_be_scaled_integers_with_nulls(tmp_path):
    """As some archives store them: thousandths of a magnitude, and -32768 for none."""
    folder = write_pair(tmp_path / "raw", ending=".fits")
    path = folder / "my_members.fits"
    with fits.open(path) as hdus:
        columns = [column for column in hdus[1].columns if column.name != "MODEL_MAG_U"]
        stored = np.array([-32768, *range(1000, 1010)], np.int16)
        columns.append(fits.Column("MODEL_MAG_U", "I", array=stored, null=-32768))
        table = fits.BinTableHDU.from_columns(
            [fits.Column(c.name, c.format, null=c.null, array=c.array) for c in columns]
        )
    number = table.columns.names.index("MODEL_MAG_U") + 1
    table.header[f"TSCAL{number}"], table.header[f"TZERO{number}"] = 0.001, 20.0
    table.writeto(path, overwrite=True)
    out = prepared(folder, tmp_path / "store")
    magnitudes = np.load(out / "features.npy")[:, FEATURES.index("MODEL_MAG_U")]
    assert np.isnan(magnitudes[0])
    assert magnitudes[1:] == pytest.approx(np.arange(21.0, 21.01, 0.001)[:10])
    assert pq.read_table(out / "members.parquet")["MODEL_MAG_U"].null_count == 1


def test_same_files_same_bytes(tmp_path):
    write_pair(tmp_path / "mine")
    first, second = (prepared(tmp_path / "mine", tmp_path / name) for name in ("one", "two"))
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


# What does not


def changed(**changes):
    return member_values() | changes


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (changed(Z_SPEC=np.full(11, -1, np.float32)), "holds no spectroscopic redshift"),
        (
            changed(OBJID=10**18 + np.array([0, 1, 2, 0, 4, 5, 6, 5, 8, 9, 10])),
            r"holds the galaxy 1000000000000000005 \(OBJID\) twice in the cluster 9",
        ),
        (
            changed(ID=np.repeat(IDS, (3, 1, 5, 2)).astype(np.int32) + 1),
            "holds members of the cluster 3, which the catalogue",
        ),
        (changed(ID=np.repeat(IDS[:3], (3, 1, 7)).astype(np.int32)), "holds no member of 1 clusters .* such as 11"),
        (changed(DEC=np.full(11, 91.0)), "holds a DEC outside of -90 to 90"),
        (changed(P=np.full(11, np.nan, np.float32)), "holds a P outside"),
        (changed(Z_SPEC=np.full(11, -0.5, np.float32)), "holds a Z_SPEC outside"),
        (changed(MODEL_MAG_R=np.full(11, np.inf, np.float32)), "lacks 11 of 11 values of MODEL_MAG_R"),
        (changed(ID=np.full(11, b"a", "S5")), "has a column ID of the form .* expected an integer"),
        (changed(P=np.zeros((11, 2), np.float32)), "has a column P of the form .* expected a number"),
        ({name: v for name, v in member_values().items() if name != "Z_SPEC"}, "lacks the column Z_SPEC"),
        ({name: v for name, v in member_values().items() if name not in ("P", "R")}, "lacks the columns R, P"),
        ({name: v[:0] for name, v in member_values().items()}, "holds no member"),
    ],
)
def test_members_that_are_wrong(tmp_path, members, message):
    write_pair(tmp_path / "mine", members)
    with pytest.raises(EquisetError, match=rf"my_members\.fits\.gz {message}") as caught:
        prepared(tmp_path / "mine", tmp_path / "out")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (cluster_values() | {"ID": np.array([2, 5, 5, 11], np.int32)}, "holds the cluster 5 twice"),
        (cluster_values() | {"Z_LAMBDA": np.full(4, -1, np.float32)}, "Z_LAMBDA that is no redshift"),
        (cluster_values() | {"P_CEN": np.zeros((4, 3), np.float32)}, "expected 5 numbers"),
        ({name: v for name, v in cluster_values().items() if name != "P_CEN"}, "lacks the column P_CEN"),
        ({name: v[:0] for name, v in cluster_values().items()}, "holds no cluster"),
    ],
)
def test_catalogues_that_are_wrong(tmp_path, clusters, message):
    write_pair(tmp_path / "mine", clusters=clusters)
    with pytest.raises(EquisetError, match=message):
        prepared(tmp_path / "mine", tmp_path / "out")


@pytest.mark.parametrize("keep", [0, 100, 2879, 2880, 5000, -3000, -10, -1])
def test_files_that_end_too_early(tmp_path, keep):
    whole = write(tmp_path / "whole.fits", member_values()).read_bytes()
    assert len(open_table(tmp_path / "whole.fits").data) == 11
    short = tmp_path / "short.fits"
    short.write_bytes(whole[:keep])
    if len(whole[:keep]) >= len(whole) - 1000:
        assert len(open_table(short).data) == 11  # only the padding behind the last row is gone
    else:
        with pytest.raises(EquisetError, match=r"short\.fits .*(cut off|not a FITS|no binary table)"):
            open_table(short)
    packed = gzip.compress(whole)
    path = tmp_path / "short.fits.gz"
    path.write_bytes(packed[: keep * len(packed) // len(whole) if keep > 0 else keep])
    with pytest.raises(EquisetError, match=r"short\.fits\.gz is (cut off|not a gzip)"):
        open_table(path)


def test_damaged_files(tmp_path):
    whole = write(tmp_path / "whole.fits", member_values()).read_bytes()
    packed = bytearray(gzip.compress(whole))
    packed[-6] ^= 1  # of the checksum
    for name, content, message in (
        ("a.fits.gz", bytes(packed), "is damaged"),
        ("b.fits.gz", whole, "is not a gzip file, despite its name"),
        ("c.fits", b"<html>" * 1000, "is not a FITS file"),
        ("d.fits", whole[:2880], "holds no binary table"),
        ("e.fits", whole.replace(b"TFORM1  = 'J", b"TFORM1  = 'K"), "contradicts"),
        ("f.fits", whole.replace(b"TFORM4  = 'E", b"TFORM4  = 'Y"), "is cut off or damaged"),
        ("g.fits", whole.replace(b"TTYPE3  = 'DEC", b"TTYPE3  = 'RA "), "two columns of one name"),
        ("h.fits", whole.replace(b"NAXIS2  =                   11", b"NAXIS2  =         999999999999"), "is cut off"),
        ("i.fits", whole.replace(b"NAXIS2  =                   11", b"NAXIS2  =                  -11"), "is cut off"),
    ):
        assert content != whole or name == "b.fits.gz", name
        (tmp_path / name).write_bytes(content)
        with pytest.raises(EquisetError, match=message) as caught:
            open_table(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(EquisetError, match=r"absent\.fits cannot be read: No such file"):
        open_table(tmp_path / "absent.fits")


# Sources


def test_folder_faults(tmp_path):
    with pytest.raises(EquisetError, match=r"datasets\.redmapper\.folder: there is no folder"):
        fetch(RedmapperSettings(source="folder", folder=str(tmp_path / "absent")), tmp_path)
    with pytest.raises(EquisetError, match=r"lacks redmapper_dr8_public_v6\.3_catalog\.fits\.gz"):
        fetch(RedmapperSettings(source="folder", folder=str(tmp_path)), tmp_path)
    write_pair(tmp_path)
    write(tmp_path / "other_members.fits", member_values())
    with pytest.raises(EquisetError, match="holds several files that may be redmapper_dr8_public"):
        fetch(RedmapperSettings(source="folder", folder=str(tmp_path)), tmp_path)
    with pytest.raises(ValueError, match=r"datasets\.redmapper\.folder must name"):
        RedmapperSettings(source="folder")


def test_only_what_ends_as_a_fits_file_is_found(tmp_path):
    write_pair(tmp_path)
    for name in ("x_members.fits.gz.1", "._my_members.fits.gz", "members.txt", "catalog.fits.part"):
        (tmp_path / name).write_text("litter")
    assert find(tmp_path) == {role: [tmp_path / f"my_{word}.fits.gz"] for role, word in redmapper._WORDS.items()}
    # The names of the real files go before all others, but not both forms of one.
    write(tmp_path / FILES["members"], member_values())
    assert find(tmp_path)["members"] == [tmp_path / FILES["members"]]
    write(tmp_path / FILES["members"].removesuffix(".gz"), member_values())
    with pytest.raises(
        EquisetError, match=r"holds several files that may be \S+members\.fits\.gz: \S+fits, \S+fits\.gz\."
    ):
        find(tmp_path)


def serve(web, folder: Path) -> str:
    write_pair(folder, changed(THETA_I=np.ones(11, np.float32), THETA_R=np.ones(11, np.float32)))
    for role, kind in (("catalogue", "catalog"), ("members", "members")):
        web.answers[f"/v6.3/{FILES[role]}"] = [web.body((folder / f"my_{kind}.fits.gz").read_bytes())]
    return web.url("/v6.3/")


def test_download_records_its_checksums(web, tmp_path, monkeypatch):
    monkeypatch.setattr(redmapper, "CLUSTERS", 4)
    monkeypatch.setattr(redmapper, "MEMBERS", 11)
    settings = RedmapperSettings(mirrors=[web.url("/gone"), serve(web, tmp_path / "served")])
    manifest = fetch(settings, tmp_path / "cache")
    assert (manifest["kind"], manifest["share"]) == ("whole", 1.0)
    asked = len(web.requests)
    assert fetch(settings, tmp_path / "cache") == manifest
    assert len(web.requests) == asked
    # A damaged copy is noticed by the recorded checksum, and brought again.
    Path(manifest["files"]["members"]["path"]).write_bytes(b"damaged")
    assert fetch(settings, tmp_path / "cache") == manifest
    assert len(web.requests) > asked


def test_download_of_something_else_is_refused(web, tmp_path):
    with pytest.raises(EquisetError, match="these files hold 4 clusters and 11 members, not 26111 and 1703685"):
        fetch(RedmapperSettings(mirrors=[serve(web, tmp_path / "served")]), tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.gz"))
    with pytest.raises(EquisetError, match=r"source: stand-in"):
        fetch(RedmapperSettings(mirrors=[web.url("/gone")]), tmp_path / "empty")
