"""CelebA's files: their readers, what is wrong with them, and the pass over the images."""

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from equiset.data import celeba
from equiset.data.celeba import FILES, CelebaSettings, StandInSize, fetch, prepare
from equiset.data.celeba.annotations import read_annotations, write_annotations
from equiset.data.celeba.images import ImageSource, convert, decode
from equiset.data.image_files import find_sets
from equiset.errors import EquisetError
from equiset.files import read_json

SIZES = StandInSize(train=40, validation=20, test=20)


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory) -> Path:
    """A folder with the four files of a stand-in."""
    cache = tmp_path_factory.mktemp("cache")
    manifest = fetch(CelebaSettings(source="stand-in", stand_in=SIZES), cache)
    return Path(manifest["files"]["images"]["path"]).parent


@pytest.fixture
def folder(stand_in, tmp_path) -> Path:
    return shutil.copytree(stand_in, tmp_path / "mine")


def settings(folder: Path) -> CelebaSettings:
    return CelebaSettings(source="folder", folder=str(folder))


def prepared(folder: Path, tmp_path: Path, threads: int = 1) -> tuple[dict, pd.DataFrame, np.ndarray]:
    store = tmp_path / f"store{threads}"
    prepare(fetch(settings(folder), tmp_path / "cache"), store, settings(folder), threads)
    return read_json(store / "store.json"), pd.read_parquet(store / "faces.parquet"), np.load(store / "images.npy")


def paths_in(folder: Path) -> dict[str, Path]:
    return {role: folder / known.name for role, known in FILES.items()}


def small() -> pd.DataFrame:
    columns = {"file": ["000001.jpg", "000002.jpg", "000003.jpg"], "identity": [7, 7, 9], "partition": [0, 0, 2]}
    return pd.DataFrame(columns | {"Bald": [True, False, True], "Young": [False, False, True]})


def test_annotations_are_written_as_celeba_writes_them(tmp_path):
    paths = paths_in(tmp_path)
    write_annotations(small(), paths)
    assert paths["attributes"].read_bytes() == (
        b"3\r\nBald Young \r\n000001.jpg 1 -1\r\n000002.jpg -1 -1\r\n000003.jpg 1  1\r\n"
    )
    assert paths["identities"].read_bytes() == b"000001.jpg 7\r\n000002.jpg 7\r\n000003.jpg 9\r\n"
    pd.testing.assert_frame_equal(read_annotations(paths), small(), check_dtype=False)


def test_files_in_another_order_are_matched_by_name(tmp_path):
    paths = paths_in(tmp_path)
    write_annotations(small(), paths)
    paths["identities"].write_text("000003.jpg 9\n000001.jpg 7\n000004.jpg 5\n000002.jpg 7\n")
    assert read_annotations(paths)["identity"].tolist() == [7, 7, 9]


@pytest.mark.parametrize(
    ("role", "content", "message"),
    [
        ("attributes", b"", "is empty"),
        ("attributes", b"3\nBald Young\n000001.jpg 1 -1\n", "line 1: expected the number of rows, 1"),
        ("attributes", b"1\nBald Bald\n000001.jpg 1 -1\n", "line 2"),
        ("attributes", b"1\nBald\n000001.jpg 1 -1\n", "line 2: expected the names of the 2 attributes"),
        (
            "attributes",
            b"2\nBald Young\n000001.jpg 1 1\n000002.jpg 1\n",
            "line 4: expected an image's name and 2 value",
        ),
        ("attributes", b"2\nBald Young\n000001.jpg 1 1\n000002.jpg 1 1 1\n", "line 4, saw 4"),
        ("attributes", b"1\nBald Young\n000001.jpg 1 0\n", "line 3: Young must be 1 or -1, not 0"),
        ("attributes", b"2\nBald Young\n000001.jpg 1 1\n000002.jpg 1 x\n", "line 4: Young must be 1 or -1, not x"),
        ("attributes", b"2\nBald Young\n000001.jpg 1 1\n000001.jpg 1 1\n", "twice"),
        ("identities", b"<!DOCTYPE html><html>Quota exceeded</html>", "web page"),
        ("identities", b"000001.jpg seven\n", "line 1: expected the name of an image and a number, got 'seven'"),
        ("identities", b"000001.jpg 7\n000002.jpg -1\n000003.jpg 1\n", "line 2: .* got '-1'"),
        ("identities", b"000001.jpg 7.5\n", "line 1: .* got '7.5'"),
        ("identities", b"000001.jpg\n", "line 1: expected an image's name and 1 value"),
        ("identities", b"000001.jpg 7\n", "lacks 000002.jpg and 1 other"),
        ("identities", b"1 7\n", "line 1: '1' is not the name of an image"),
        ("partition", b"000001.jpg 0\n000002.jpg 1\n000003.jpg 3\n", "has 3 where 0"),
        ("partition", b"\xff\xfe\x00\n", "cannot be read: 'ascii' codec"),
    ],
)
def test_annotation_files_that_are_wrong(tmp_path, role, content, message):
    paths = paths_in(tmp_path)
    write_annotations(small(), paths)
    paths[role].write_bytes(content)
    with pytest.raises(EquisetError, match=message) as caught:
        read_annotations(paths)
    assert FILES[role].name in str(caught.value)


def test_stand_in_has_celebas_files(stand_in):
    annotations = read_annotations(paths_in(stand_in))
    assert annotations.shape == (80, 3 + 40)
    with zipfile.ZipFile(stand_in / "img_align_celeba.zip") as archive:
        image = Image.open(io.BytesIO(archive.read("img_align_celeba/000080.jpg")))
    assert (image.format, image.size, image.mode) == ("JPEG", (178, 218), "RGB")


def test_store(folder, tmp_path):
    store, faces, images = prepared(folder, tmp_path)
    assert images.shape == (80, 64, 64, 3)
    assert images.std(axis=(1, 2, 3)).min() > 10
    assert faces["row"].tolist() == list(range(80))
    assert store["parts"] == {"train": 40, "validation": 20, "test": 20}
    assert (store["kind"], store["share"], store["source"]) == ("own", 0.0, "folder")
    assert (store["missing"]["count"], store["broken"]["count"]) == (0, 0)


def test_unpacked_subset_and_broken_images(folder, tmp_path, caplog):
    with zipfile.ZipFile(folder / "img_align_celeba.zip") as archive:
        archive.extractall(folder)
    for number in range(1, 31):
        (folder / "img_align_celeba" / f"{number:06d}.jpg").unlink()
    whole = (folder / "img_align_celeba" / "000040.jpg").read_bytes()
    (folder / "img_align_celeba" / "000040.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "img_align_celeba" / "000050.jpg").write_bytes(b"")
    store, faces, images = prepared(folder, tmp_path)
    assert (store["missing"]["count"], store["missing"]["first"][0]) == (30, "000001.jpg")
    assert sorted(store["broken"]["first"]) == ["000040.jpg", "000050.jpg"]
    assert "000040.jpg" in caplog.text
    assert len(faces) == store["images"] == 48
    # Rows of the table still point at their own image.
    row = faces.set_index("file").loc["000080.jpg", "row"]
    np.testing.assert_array_equal(images[row], decode((folder / "img_align_celeba" / "000080.jpg").read_bytes())[0])


@pytest.fixture
def official(folder, monkeypatch) -> Path:
    """A folder whose annotation files are taken for CelebA's, of eighty images, unpacked."""
    known = {role: file._replace(md5=celeba.digest(folder / file.name, "md5")) for role, file in FILES.items()}
    monkeypatch.setattr(celeba, "FILES", known)
    monkeypatch.setattr(celeba, "IMAGES", 80)
    with zipfile.ZipFile(folder / "img_align_celeba.zip") as archive:
        archive.extractall(folder)
    return folder


def save(path: Path, size: tuple[int, int]) -> None:
    Image.new("RGB", size, "grey").save(path)


def test_all_images_with_the_official_annotations_are_the_whole(official, tmp_path):
    # What macOS leaves beside a file is no image.
    (official / "img_align_celeba" / "._000001.jpg").write_bytes(b"")
    store, *_ = prepared(official, tmp_path)
    assert (store["kind"], store["share"], store["description"]) == ("whole", 1.0, "CelebA")
    assert store["foreign"] == {"count": 0, "first": {}}
    assert (tmp_path / "store1" / "absent.txt").read_text() == ""


def test_a_part_states_its_share_and_names_what_is_absent(official, tmp_path):
    for number in (1, 2, 3, 7, 79, 80):
        (official / "img_align_celeba" / f"{number:06d}.jpg").unlink()
    (official / "img_align_celeba" / "000009.jpg").write_bytes(b"broken")
    manifest = fetch(settings(official), tmp_path / "cache")
    assert (manifest["kind"], manifest["description"]) == ("part", "CelebA, 74 of 80 images")
    store, *_ = prepared(official, tmp_path)
    assert (store["kind"], store["share"], store["description"]) == ("part", 73 / 80, "CelebA, 73 of 80 images")
    absent = (tmp_path / "store1" / "absent.txt").read_text().splitlines()
    assert absent == ["000001.jpg to 000003.jpg", "000007.jpg", "000009.jpg", "000079.jpg to 000080.jpg"]


@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("000005.jpg", (218, 178), "218 x 178 pixels, not 178 x 218"),
        ("me.jpg", (178, 218), "no name of CelebA's"),
        ("000081.jpg", (178, 218), "no name of CelebA's"),
    ],
)
def test_one_image_that_is_not_celebas_is_named_and_makes_it_own_data(official, tmp_path, caplog, name, size, reason):
    save(official / "img_align_celeba" / name, size)
    (official / "img_align_celeba" / "000080.jpg").unlink()
    store, *_ = prepared(official, tmp_path)
    assert (store["kind"], store["share"]) == ("own", 0.0)
    assert store["foreign"] == {"count": 1, "first": {name: reason}}
    assert store["description"].startswith("own images with CelebA's annotations, 1 of ")
    assert f"1 file(s) not CelebA's; results are not the paper's: {name} ({reason})" in caplog.text


def test_other_annotations_make_it_own_data(official, tmp_path):
    with (official / "identity_CelebA.txt").open("a") as file:
        file.write("999999.jpg 1\n")
    store, *_ = prepared(official, tmp_path)
    assert (store["kind"], store["description"]) == ("own", "own data in the layout of CelebA")
    assert store["foreign"]["first"] == {"identity_CelebA.txt": "not CelebA's annotations"}


def test_any_number_of_processes_gives_the_same_bytes(stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr("equiset.data.celeba.images._BLOCK", 16)
    source = ImageSource(stand_in / "img_align_celeba.zip")
    for threads in (1, 2):
        convert(source, source.names(), tmp_path / f"{threads}.npy", threads)
    assert (tmp_path / "1.npy").read_bytes() == (tmp_path / "2.npy").read_bytes()


def test_draft_is_within_two_grey_levels(stand_in):
    with zipfile.ZipFile(stand_in / "img_align_celeba.zip") as archive:
        contents = [archive.read(f"img_align_celeba/{number:06d}.jpg") for number in range(1, 21)]
    pairs = [(decode(content)[0].astype(int), decode(content, draft=False)[0]) for content in contents]
    differences = [np.abs(drafted - full).mean() for drafted, full in pairs]
    assert 0 < np.mean(differences) < 2


def test_crop_is_the_middle_square():
    pixels = np.zeros((218, 178, 3), np.uint8)
    pixels[20:198] = 200
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95)
    for draft in (False, True):
        square, size = decode(file.getvalue(), draft)
        assert square[1:-1].min() > 190
        assert size == (178, 218)


@pytest.mark.parametrize("draft", [False, True])
def test_a_picture_is_turned_as_its_camera_notes(draft):
    upright = np.zeros((218, 178, 3), np.uint8)
    upright[:109, :, 0] = 250  # red above
    upright[109:, :, 2] = 250  # blue below
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    file = io.BytesIO()
    Image.fromarray(np.rot90(upright).copy()).save(file, "JPEG", quality=95, exif=exif)
    square, _ = decode(file.getvalue(), draft)
    assert square[:28, :, 0].min() > 200
    assert square[36:, :, 2].min() > 200


def test_quota_page_saved_as_zip(folder, tmp_path):
    (folder / "img_align_celeba.zip").write_text("<!DOCTYPE html><html><title>Google Drive - Quota exceeded</title>")
    with pytest.raises(EquisetError, match=r"img_align_celeba.zip is a web page, the quota"):
        fetch(settings(folder), tmp_path)
    (folder / "img_align_celeba.zip").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(EquisetError, match="damaged or cut off"):
        fetch(settings(folder), tmp_path)


@pytest.mark.parametrize("name", [known.name for known in FILES.values()])
def test_missing_file_is_named(folder, tmp_path, name):
    (folder / name).unlink()
    with pytest.raises(EquisetError, match=name):
        fetch(settings(folder), tmp_path)


def test_folders_as_celeba_lays_them_out(folder, tmp_path):
    for role, known in FILES.items():
        place = folder / {"images": "Img", "partition": "Eval"}.get(role, "Anno")
        place.mkdir(exist_ok=True)
        (folder / known.name).rename(place / known.name)
    assert len(fetch(settings(folder), tmp_path)["files"]) == 4


def test_images_of_something_else(folder, tmp_path):
    with zipfile.ZipFile(folder / "img_align_celeba.zip", "w") as archive:
        archive.writestr("other/a.jpg", b"")
    manifest = fetch(settings(folder), tmp_path)
    with pytest.raises(EquisetError, match="none of the 80 images"):
        prepare(manifest, tmp_path / "store")


def test_a_name_twice_in_the_archive_is_refused(folder, tmp_path):
    with zipfile.ZipFile(folder / "img_align_celeba.zip", "a") as archive:
        archive.writestr("again/000005.jpg", b"another")
    with pytest.raises(EquisetError, match=r"000005.jpg is there twice, as img_align_celeba/000005.jpg and again/"):
        fetch(settings(folder), tmp_path)


def saved(pixels: np.ndarray, form: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


GREY = np.full((80, 80), 90)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (saved(GREY.astype(np.uint16)), "kind I;16; save it with 8 bits"),
        (saved(np.dstack([GREY, GREY, GREY, GREY]).astype(np.uint8)), "transparent; save it with a background"),
        (saved(GREY.astype(np.uint8), "TIFF"), "cannot identify image file"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 80 80\n%%EndComments\n", "cannot identify image file"),
    ],
)
def test_pixels_that_would_become_others_are_refused(content, reason):
    with pytest.raises((ValueError, OSError), match=reason):
        decode(content)


def test_pixels_stay_what_they_are_in_every_format():
    opaque = np.dstack([GREY, GREY, GREY, np.full_like(GREY, 255)]).astype(np.uint8)
    for content in (saved(GREY.astype(np.uint8)), saved(GREY.astype(np.uint8), "BMP"), saved(opaque)):
        assert (decode(content)[0] == 90).all()


def test_images_that_lie_too_deep_for_a_set_are_named(tmp_path):
    path = tmp_path / "one" / "two" / "a.bmp"
    path.parent.mkdir(parents=True)
    Image.new("L", (28, 28)).save(path)
    with pytest.raises(EquisetError, match=r"two/a.bmp is too deep"):
        find_sets(tmp_path)
    assert find_sets(tmp_path / "one") == {"two": [path]}


def test_download_that_gets_a_quota_page(web, tmp_path):
    web.answers["/images.zip"] = [web.body(b"<!DOCTYPE html><html>Quota exceeded</html>")]
    chosen = CelebaSettings(image_mirrors=[web.url("/images.zip")], attempts=1)
    with pytest.raises(EquisetError, match=r"web page, perhaps a quota .* by hand .*source: stand-in"):
        fetch(chosen, tmp_path)


def test_download(web, folder, tmp_path, monkeypatch):
    known = {}
    for role, file in FILES.items():
        content = (folder / file.name).read_bytes()
        web.answers[f"/{role}"] = [web.body(content)]
        md5 = celeba.digest(folder / file.name, "md5")
        known[role] = file._replace(bytes=len(content), md5=md5, drive_id=role)
    monkeypatch.setattr(celeba, "FILES", known)
    monkeypatch.setattr(celeba, "_DRIVE", web.url("/"))
    manifest = fetch(CelebaSettings(image_mirrors=[web.url("/absent"), web.url("/images")], attempts=1), tmp_path)
    assert (manifest["kind"], manifest["share"]) == ("whole", 1.0)
    assert manifest["files"]["images"]["bytes"] == (folder / "img_align_celeba.zip").stat().st_size
