"""The drawn faces: every attribute shows, and they go together as CelebA's do."""

import io

import numpy as np
import pytest
from PIL import Image

from equiset.data.celeba import FILES, stand_in
from equiset.data.celeba.stand_in_attributes import NAMES, RATES, draw_attributes
from equiset.data.celeba.stand_in_faces import Person, draw_face
from equiset.files import digest


def small(image: Image.Image) -> np.ndarray:
    return np.asarray(image.resize((64, 64), Image.Resampling.BILINEAR, (0, 20, 178, 198))).astype(float)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("male", [False, True])
def test_every_attribute_shows_at_the_size_that_networks_see(name, male):
    has = dict.fromkeys(NAMES, False) | {"Male": male, "Young": True, "No_Beard": True, "Brown_Hair": True}
    person = Person.draw(np.random.default_rng(1))
    pair = [small(draw_face(has | {name: value}, person, np.random.default_rng(2))) for value in (False, True)]
    # Pose, light and noise are the same in both, so the attribute alone makes the difference.
    changed = np.abs(pair[0] - pair[1]).max(axis=2) > 25
    assert changed.sum() >= 8


def test_rates_and_correlations_are_celebas():
    person = np.arange(30_000) // 15
    drawn = draw_attributes(person, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), RATES, atol=0.03)
    table = np.corrcoef(drawn.T)

    def together(first: str, second: str) -> float:
        return table[NAMES.index(first), NAMES.index(second)]

    # CelebA's own: .80, -.79, .68, .53, -.57
    assert together("Heavy_Makeup", "Wearing_Lipstick") > 0.6
    assert together("Male", "Wearing_Lipstick") < -0.55
    assert together("High_Cheekbones", "Smiling") > 0.5
    assert together("Chubby", "Double_Chin") > 0.3
    assert together("Goatee", "No_Beard") < -0.35


def test_people_last_and_stay_in_one_part():
    annotations = stand_in.annotate((300, 100, 100), seed=3)
    people = annotations.groupby("identity")
    assert (people[["partition", "Male"]].nunique() == 1).all(axis=None)
    assert len(people) < 60


def test_pictures_of_one_person_differ_and_are_the_same_on_every_run():
    attributes = stand_in.annotate((20,), seed=0)[list(NAMES)].to_numpy()[0]
    first, again, other = (stand_in.draw_picture(attributes, 5, number, 0) for number in (1, 1, 2))
    assert first == again
    assert first != other
    assert Image.open(io.BytesIO(first)).size == (178, 218)


def test_any_number_of_processes_writes_the_same_file(tmp_path, monkeypatch):
    monkeypatch.setattr(stand_in, "_BLOCK", 10)
    annotations = stand_in.annotate((24,), seed=1)
    stand_in.write_images(annotations, tmp_path / "one.zip", seed=1, processes=1)
    monkeypatch.setattr(stand_in, "min", lambda *_: 2, raising=False)
    stand_in.write_images(annotations, tmp_path / "two.zip", seed=1, processes=2)
    assert digest(tmp_path / "one.zip") == digest(tmp_path / "two.zip")
    assert set(FILES) == {"images", "attributes", "identities", "partition"}
