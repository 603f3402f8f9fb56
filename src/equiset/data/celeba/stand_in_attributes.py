"""Attributes that go together as they do in CelebA: its forty names, how often each is true, and what they share.

An attribute is true when a normal variable falls below a threshold, which its rate sets. The variables hang
together through eight common factors. Rates and loadings were fitted to the 202,599 rows of CelebA's
`list_attr_celeba.txt` (tetrachoric correlations, principal factors); the correlation matrix of attributes drawn here
and CelebA's own correlate to 0.98.
"""

import numpy as np
from scipy.special import ndtri

# name, rate in thousandths, loadings on the factors in hundredths
_TABLE = """
5_o_Clock_Shadow 111 -60 -54 23 -21 22 6 11 21
Arched_Eyebrows 267 61 10 25 16 -30 -17 21 15
Attractive 513 69 -36 30 -21 10 -25 -10 17
Bags_Under_Eyes 205 -47 24 23 -13 10 14 36 24
Bald 22 -71 48 -2 -5 -11 -45 -16 2
Bangs 152 40 -12 -13 -7 20 44 19 -2
Big_Lips 241 19 2 23 33 -27 0 27 15
Big_Nose 235 -60 36 32 15 -6 12 19 9
Black_Hair 239 -9 -33 58 -6 -53 39 -14 -24
Blond_Hair 148 60 19 -38 -6 14 1 -14 62
Blurry 51 -14 0 -42 9 -2 25 8 -7
Brown_Hair 205 28 -28 -2 -14 49 -20 51 -50
Bushy_Eyebrows 142 -25 -35 51 -11 -10 5 4 10
Chubby 58 -64 49 12 20 -8 5 -1 -14
Double_Chin 47 -58 62 13 7 2 13 7 -9
Eyeglasses 65 -53 20 -31 8 -2 11 -20 -29
Goatee 63 -74 -26 22 30 3 -21 -4 8
Gray_Hair 42 -51 70 -37 -26 -2 -8 7 10
Heavy_Makeup 387 95 10 10 2 -11 -12 -9 -10
High_Cheekbones 455 36 57 53 -1 32 9 -10 -0
Male 417 -95 -13 11 -13 10 -3 -1 4
Mouth_Slightly_Open 483 16 41 34 7 31 18 -8 5
Mustache 42 -75 -15 21 30 -7 -8 6 5
Narrow_Eyes 115 -5 16 10 8 1 19 28 16
No_Beard 835 82 38 -24 -21 -11 15 -0 -15
Oval_Face 284 24 4 25 -14 19 -23 -46 -19
Pale_Skin 43 20 -13 -26 -11 -18 2 8 12
Pointy_Nose 277 38 -9 7 -8 0 -22 2 13
Receding_Hairline 80 -36 51 11 -13 -39 -33 8 -4
Rosy_Cheeks 66 67 34 36 4 11 -9 -10 2
Sideburns 57 -72 -39 18 16 16 -20 5 14
Smiling 482 24 54 58 -5 46 15 -11 6
Straight_Hair 208 -1 -16 9 -59 -9 39 -7 10
Wavy_Hair 320 51 -3 2 25 11 -19 32 -6
Wearing_Earrings 189 58 29 16 24 -15 2 -1 -10
Wearing_Hat 48 -33 -21 -24 68 30 25 -39 0
Wearing_Lipstick 472 97 12 5 6 -11 -5 1 -4
Wearing_Necklace 123 49 20 -2 30 -11 18 20 9
Wearing_Necktie 73 -70 20 3 -52 -1 0 0 -8
Young 774 52 -57 19 -5 -6 -4 -14 3
"""
_ROWS = [line.split() for line in _TABLE.strip().splitlines()]
NAMES = tuple(row[0] for row in _ROWS)
RATES = np.array([int(row[1]) for row in _ROWS]) / 1000
LOADINGS = np.array([[int(value) for value in row[2:]] for row in _ROWS]) / 100
# What changes from picture to picture; the rest mostly stays with the person, and Male always does.
_PASSING = ("Blurry", "Eyeglasses", "High_Cheekbones", "Mouth_Slightly_Open", "Narrow_Eyes", "Smiling", "Wearing_Hat")


def draw_attributes(person: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a boolean row of attributes for each picture, given the number of the person on it."""
    lasting = np.full(len(NAMES), 0.8)
    lasting[[NAMES.index(name) for name in _PASSING]] = 0.3
    lasting[NAMES.index("Male")] = 1
    own = _latent(int(person.max()) + 1, rng)[person]
    passing = _latent(len(person), rng)
    return np.sqrt(lasting) * own + np.sqrt(1 - lasting) * passing < ndtri(RATES)


def _latent(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return correlated standard normal variables, one column for each attribute."""
    alone = np.sqrt((1 - (LOADINGS**2).sum(axis=1)).clip(0))
    shared = rng.standard_normal((rows, LOADINGS.shape[1])) @ LOADINGS.T
    return shared + rng.standard_normal((rows, len(NAMES))) * alone
