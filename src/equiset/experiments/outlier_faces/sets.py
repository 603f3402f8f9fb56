"""Draws the sets of faces: two attributes, faces that have both, and outliers that have neither.

Pairs of attributes are drawn evenly from those with enough images in the part of the data that a set comes from. The
work goes pair by pair, not set by set: all sets of a pair are drawn at once from its list of candidates.
"""

import logging
from pathlib import Path

import numpy as np
import pandas as pd

from equiset.errors import EquisetError
from equiset.experiments.outlier_faces.settings import FaceSets
from equiset.files import digest, read_json, read_parquet, write_json

log = logging.getLogger(__name__)

SPLITS = ("train", "validation", "test")
_SHARES = (0.8, 0.1, 0.1)  # of the people, where they are dealt out anew


def make_sets(settings: FaceSets, seed: int, store: Path, folder: Path) -> None:
    """Write `sets.parquet` (split, members, outlier, attributes), `pairs.parquet` and `sets.json`.

    `members` are rows of the image store, `outlier` says which of them do not belong. The attributes are for the
    figures and tables; no network sees them.
    """
    about = read_json(store / "store.json")
    names = about["attributes"]
    faces = read_parquet(store / "faces.parquet")
    attributes = faces[names].to_numpy()
    rows, identity = faces["row"].to_numpy(), faces["identity"].to_numpy()
    part = faces["partition"].to_numpy() if settings.split == "official" else deal_people(identity, seed)
    check_people(identity, part)
    tables, pairs = [], []
    for number, split in enumerate(SPLITS):
        here = np.flatnonzero(part == number)
        rng = np.random.default_rng([seed, number])
        members, outlier, pair, counts = draw_sets(attributes[here], getattr(settings, split), settings, split, rng)
        tables.append(
            pd.DataFrame(
                {
                    "split": pd.Categorical([split] * len(pair), categories=list(SPLITS)),
                    "members": list(rows[here][members].astype(np.int32)),
                    "outlier": list(outlier),
                    "first": pd.Categorical.from_codes(pair[:, 0], names),
                    "second": pd.Categorical.from_codes(pair[:, 1], names),
                }
            )
        )
        counts.insert(0, "split", split)
        pairs.append(counts.assign(first=np.array(names)[counts["first"]], second=np.array(names)[counts["second"]]))
    folder.mkdir(parents=True)
    table, pairs_table = pd.concat(tables, ignore_index=True), pd.concat(pairs, ignore_index=True)
    table.to_parquet(folder / "sets.parquet", index=False)
    pairs_table.to_parquet(folder / "pairs.parquet", index=False)
    for split, group in pairs_table.groupby("split", sort=False):
        usable, drawn = group.query("usable"), group["sets"]
        log.info("%s: %d sets of %d pairs, %d to %d each", split, drawn.sum(), len(usable), drawn.min(), drawn.max())
    described = settings.describe(
        about,
        seed,
        digest(folder / "sets.parquet"),
        people={split: len(np.unique(identity[part == number])) for number, split in enumerate(SPLITS)},
        pairs={split: int(group["usable"].sum()) for split, group in pairs_table.groupby("split", sort=False)},
    )
    write_json(folder / "sets.json", described)


def deal_people(identity: np.ndarray, seed: int) -> np.ndarray:
    """Return for each image the number of the split that its person was dealt to."""
    people, person = np.unique(identity, return_inverse=True)
    bounds = np.round(np.cumsum(_SHARES)[:-1] * len(people)).astype(int)
    parts = np.searchsorted(bounds, np.arange(len(people)), side="right")
    return np.random.default_rng([seed, len(SPLITS)]).permutation(parts)[person]


def check_people(identity: np.ndarray, part: np.ndarray) -> None:
    """Fail if a person is on two sides of the split."""
    order = np.lexsort((part, identity))
    same = (identity[order][1:] == identity[order][:-1]) & (part[order][1:] != part[order][:-1])
    if same.any():
        people = np.unique(identity[order][1:][same])
        raise EquisetError(
            f"{len(people)} people are in two parts of the official partition, for instance person {people[0]}, so "
            "the test would show faces known from training. Set `split: people` under experiments.outlier_faces.sets "
            "to deal them out anew"
        )


def draw_sets(
    attributes: np.ndarray, count: int, settings: FaceSets, split: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, pd.DataFrame]:
    """Draw sets from images of which the attributes are given.

    Returns:
        members (sets, N): numbers of images; outlier (sets, N): which of them are outliers; the two attributes of
        each set; and a table of all pairs with how many images and sets they have.
    """
    members, least, most = settings.members, settings.least_outliers, settings.most_outliers
    pairs = count_pairs(attributes)
    pairs["usable"] = (pairs["both"] >= members - least) & (pairs["neither"] >= most)
    usable = np.flatnonzero(pairs["usable"])
    if not len(usable):
        raise EquisetError(
            f"no two attributes have {members - least} images with both in the {split} part of the data, which has "
            f"{len(attributes)} images. Add images, lower experiments.outlier_faces.sets.*.members, or set `split: "
            "people` there if images of one part of the official partition are absent"
        )
    chosen = np.sort(rng.choice(usable, size=count))
    drawn = np.empty((count, members), dtype=np.int64)
    outliers = rng.integers(least, most + 1, size=count)
    columns = np.ascontiguousarray(attributes.T)
    for pair in np.unique(chosen):
        sets = np.flatnonzero(chosen == pair)
        first, second = columns[pairs["first"][pair]], columns[pairs["second"][pair]]
        both, neither = np.flatnonzero(first & second), np.flatnonzero(~(first | second))
        drawn[sets, : members - least] = both[_choose(len(both), len(sets), members - least, rng)]
        strange = neither[_choose(len(neither), len(sets), most, rng)]
        # Outliers take the last places of the row; the order is mixed below.
        for number in range(most):
            some = outliers[sets] > number
            drawn[sets[some], members - 1 - number] = strange[some, number]
    is_outlier = np.arange(members) >= (members - outliers)[:, None]
    order = _places(count, members, rng)
    mixed = rng.permutation(count)
    drawn, is_outlier = np.take_along_axis(drawn, order, 1)[mixed], np.take_along_axis(is_outlier, order, 1)[mixed]
    pairs["sets"] = np.bincount(chosen, minlength=len(pairs))
    return drawn, is_outlier, pairs[["first", "second"]].to_numpy()[chosen[mixed]], pairs


def _places(count: int, members: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random order of the members of each set, in which the last one comes to each place equally often.

    Places drawn freely would differ in frequency by chance, and a network that always names the most frequent one would
    seem to be better than chance.
    """
    order = rng.random((count, members)).argsort(axis=1)
    sets, wanted = np.arange(count), rng.permutation(np.arange(count) % members)
    found = (order == members - 1).argmax(axis=1)
    order[sets, found], order[sets, wanted] = order[sets, wanted], members - 1
    return order


def count_pairs(attributes: np.ndarray) -> pd.DataFrame:
    """Return for every pair of attributes how many images have both and how many have neither."""
    # Sums of up to 2^24 ones are exact in float32, whose product is many times faster than that of integers.
    values = attributes.astype(np.float32)
    both = np.rint(values.T @ values).astype(np.int64)
    single = np.diag(both)
    neither = len(attributes) - single[:, None] - single + both
    first, second = np.triu_indices(len(both), 1)
    return pd.DataFrame(
        {"first": first, "second": second, "both": both[first, second], "neither": neither[first, second]}
    )


def _choose(candidates: int, rows: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return `rows` draws of `count` different numbers below `candidates`."""
    if candidates <= 8 * count:
        return rng.random((rows, candidates)).argsort(axis=1)[:, :count]
    drawn = rng.integers(candidates, size=(rows, count))
    while True:
        ordered = np.sort(drawn, axis=1)
        repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not repeated.any():
            return drawn
        drawn[repeated] = rng.integers(candidates, size=(int(repeated.sum()), count))
