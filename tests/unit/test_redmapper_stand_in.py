"""The simulated catalogue: like the real one where it matters, and informative for the right reason."""

import numpy as np
import pytest
from astropy.io import fits

from equiset.data.redmapper import FILES, RedmapperSettings, fetch
from equiset.data.redmapper.catalogue import MEMBER_COLUMNS
from equiset.data.redmapper.stand_in import _degrees_per_mpc, draw_clusters, write


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stand_in")
    write(folder / FILES["catalogue"], folder / FILES["members"], 1200, seed=0)
    return folder, fits.getdata(folder / FILES["catalogue"]), fits.getdata(folder / FILES["members"])


def test_layout_is_that_of_the_real_files(tables):
    folder, clusters, members = tables
    assert set(members.names) == {*MEMBER_COLUMNS, "THETA_I", "THETA_R"}
    assert len(members.names) == 22
    assert members["OBJID"].dtype.itemsize == 8
    assert members["RA"].dtype.itemsize == 8
    assert members["P"].dtype.itemsize == 4
    assert clusters["P_CEN"].shape == (1200, 5)
    assert np.allclose(clusters["P_CEN"].sum(1), 1)
    assert set(np.unique(members["ID"])) == set(clusters["ID"])
    none = members["Z_SPEC"] < 0
    assert (members["Z_SPEC"][none] == -1).all()
    with fits.open(folder / FILES["members"]) as file:
        assert file[1].columns["MODEL_MAG_U"].unit == "mag"
        file.verify("exception")


def test_clusters_follow_the_real_table():
    """Against quartiles of the public table, version 6.3."""
    sky = draw_clusters(26_111, seed=0)
    sizes = sky["members"]
    assert (sizes.min(), np.median(sizes)) == pytest.approx((24, 60), abs=2)
    assert sizes.max() <= 309
    assert np.percentile(sizes, (25, 75)) == pytest.approx((51, 73), rel=0.06)
    assert sizes.sum() == pytest.approx(1_703_685, rel=0.03)
    assert np.percentile(sky["Z_LAMBDA"], (25, 50, 75)) == pytest.approx((0.294, 0.372, 0.437), abs=0.005)
    assert np.percentile(sky["LAMBDA"], (25, 50, 75)) == pytest.approx((25.8, 33.3, 45.7), rel=0.05)
    assert np.percentile(sky["Z_LAMBDA_ERR"], (25, 50, 75)) == pytest.approx((0.0120, 0.0144, 0.0164), rel=0.15)
    assert (np.diff(sky["ID"]) > 0).all()


def test_colours_follow_the_red_sequence(tables):
    _, clusters, members = tables
    z = clusters["Z_LAMBDA"][np.searchsorted(clusters["ID"], members["ID"])]
    sure = members["P"] > 0.8
    for at, g_r, r_i in ((0.15, 1.0804, 0.4361), (0.25, 1.3983, 0.5215), (0.35, 1.6296, 0.5842)):
        near = sure & (np.abs(z - at) < 0.02)
        assert np.median((members["MODEL_MAG_G"] - members["MODEL_MAG_R"])[near]) == pytest.approx(g_r, abs=0.06)
        assert np.median((members["MODEL_MAG_R"] - members["MODEL_MAG_I"])[near]) == pytest.approx(r_i, abs=0.04)


def test_errors_grow_with_magnitude_and_spectra_are_bright_and_sparse(tables):
    _, _, members = tables
    for band in "GRI":
        magnitude, error = members[f"MODEL_MAG_{band}"], members[f"MODEL_MAGERR_{band}"]
        brighter, fainter = (np.median(error[np.abs(magnitude - at) < 0.5]) for at in (18.5, 20.5))
        assert fainter > 2.5 * brighter
    has = members["Z_SPEC"] >= 0
    assert 0.03 < has.mean() < 0.15
    assert np.median(members["IMAG"][has]) < np.median(members["IMAG"]) - 0.5


def test_the_catalogue_errs_as_in_the_paper_and_a_member_alone_knows_less_than_its_cluster(tables):
    _, clusters, members = tables
    has = members["Z_SPEC"] >= 0
    host = np.searchsorted(clusters["ID"], members["ID"])
    z_spec, z_lambda = members["Z_SPEC"][has], clusters["Z_LAMBDA"][host][has]
    assert np.mean(np.abs(z_lambda - z_spec) / (1 + z_spec)) == pytest.approx(0.025, abs=0.005)
    # The redshift of a cluster from the g-i colour of one sure member, and from the median of all its sure members.
    colour = members["MODEL_MAG_G"] - members["MODEL_MAG_I"]
    sure = (members["P"] > 0.7) & (clusters["Z_LAMBDA"][host] < 0.33)
    medians = np.array([np.median(colour[sure & (host == at)]) for at in np.unique(host[sure])[:200]])
    truth = clusters["Z_LAMBDA"][np.unique(host[sure])[:200]]
    alone = np.array([colour[sure & (host == at)][0] for at in np.unique(host[sure])[:200]])
    by_cluster, by_one = (np.std(truth - np.polyval(np.polyfit(c, truth, 2), c)) for c in (medians, alone))
    assert by_cluster < 0.6 * by_one


def test_distances_from_the_centre_are_measured_at_the_catalogues_redshift(tables):
    """As in the real table: an angle and R tell Z_LAMBDA, not the true redshift."""
    _, clusters, members = tables
    members = members[members["R"] > 0]  # the centre itself says nothing
    host = np.searchsorted(clusters["ID"], members["ID"])
    east = ((members["RA"] - clusters["RA"][host] + 180) % 360 - 180) * np.cos(np.radians(members["DEC"]))
    angle = np.hypot(east, members["DEC"] - clusters["DEC"][host])
    expected = members["R"] * _degrees_per_mpc(clusters["Z_LAMBDA"][host].astype(float))
    # Galaxies of two clusters are measured in a plane, which differs a little.
    assert np.percentile(np.abs(angle / expected - 1), 99) < 1e-5
    assert np.allclose(angle, expected, rtol=1e-2)


def test_galaxies_are_shared_by_neighbours(tables):
    _, _, members = tables
    objid, count = np.unique(members["OBJID"], return_counts=True)
    assert 0 < (count > 1).sum() < 0.02 * len(objid)
    shared = members[members["OBJID"] == objid[count > 1][0]]
    assert len(set(shared["ID"])) == 2
    assert len(set(shared["RA"])) == len(set(shared["MODEL_MAG_G"])) == len(set(shared["Z_SPEC"])) == 1


def test_same_seed_same_bytes_and_never_taken_for_real(tmp_path):
    settings = RedmapperSettings(source="stand-in", stand_in={"clusters": 30, "seed": 3})
    manifests = [fetch(settings, tmp_path / name) for name in ("one", "two")]
    sums = [{role: entry["sha256"] for role, entry in manifest["files"].items()} for manifest in manifests]
    assert sums[0] == sums[1]
    assert (manifests[0]["kind"], manifests[0]["share"]) == ("stand-in", 0.0)
    assert "simulated" in manifests[0]["description"]
    again = RedmapperSettings(source="folder", folder=str(tmp_path / "one" / "redmapper-stand-in-30-3"))
    assert fetch(again, tmp_path)["kind"] == "stand-in"


def test_plain_and_compressed_files_hold_the_same(tmp_path):
    for ending in (".fits", ".fits.gz"):
        write(tmp_path / f"catalogue{ending}", tmp_path / f"members{ending}", 20, seed=0)
    for name in ("catalogue", "members"):
        plain, packed = (fits.getdata(tmp_path / f"{name}{ending}") for ending in (".fits", ".fits.gz"))
        assert plain.tobytes() == packed.tobytes()
