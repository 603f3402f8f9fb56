"""What the fuzzers have found stays found: every kept input, and every seed with some seeded damage."""

import random
import resource
from pathlib import Path

import pytest

from .fuzz.targets import TARGETS

FOUND = Path(__file__).parent / "fuzz" / "found"


@pytest.mark.parametrize("path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_findings_stay_mended(path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    TARGETS[path.parent.name].check(path.read_bytes())
    taken_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert taken_mb < 200


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read_and_damage_is_borne(name):
    target = TARGETS[name]
    dice = random.Random(name)
    for seed in target.seeds():
        target.check(seed)
        for _ in range(150):
            content = bytearray(seed)
            for _ in range(dice.randint(1, 4)):
                at = dice.randrange(len(content))
                match dice.randrange(4):
                    case 0:
                        content[at] = dice.randrange(256)
                    case 1:
                        del content[at : at + dice.randint(1, 8)]
                    case 2:
                        content[at:at] = dice.choice(target.words)
                    case 3:
                        content[at:at] = content[max(0, at - 20) : at]
                content = content or bytearray(b"\0")
            target.check(bytes(content))


def test_every_reader_of_ours_has_kept_findings():
    assert {path.name for path in FOUND.iterdir()} <= set(TARGETS)
