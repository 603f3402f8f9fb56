"""Draws a face that shows forty attributes: flat shapes, plainly a drawing, each attribute with a mark of its own.

All coordinates are pixels of the finished picture, measured from the point between the eyes and the mouth. Shapes
are drawn at twice the size and then averaged, which smooths their edges.
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

WIDTH, HEIGHT = 178, 218  # of CelebA's aligned images
_FINER = 2
_ROUND = np.linspace(0, 2 * np.pi, 40, endpoint=False)
_CIRCLE = np.stack([np.cos(_ROUND), np.sin(_ROUND)], axis=1)
_BLACK, _DARK = np.array([0, 0, 0]), np.array([35, 20, 20])
_WHITE = np.array([255, 255, 255])
HAIR = {
    "Black_Hair": (25, 22, 28),
    "Brown_Hair": (104, 62, 30),
    "Blond_Hair": (238, 208, 110),
    "Gray_Hair": (172, 174, 178),
}
_OTHER_HAIR = (184, 70, 34)  # red: none of the four
# One field of noise, of which every picture takes a part: fresh numbers would cost more than the drawing.
_NOISE_MARGIN = 64
_NOISE = np.random.default_rng(0).normal(0, 4, (HEIGHT + _NOISE_MARGIN, WIDTH + _NOISE_MARGIN, 3)).astype(np.float32)


@dataclass(frozen=True)
class Person:
    """What all pictures of one person share."""

    tan: float  # of the skin, 0 to 1
    wide: float  # factors around 1
    tall: float
    eyes: tuple[int, int, int]
    spacing: float
    spots: np.ndarray  # positions of skin marks, shown on faces that are not Attractive

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Person":
        eyes = ((66, 110, 170), (92, 60, 32), (70, 120, 70))[rng.integers(3)]
        spots = np.stack([rng.uniform(-25, 25, 5), rng.uniform(-2, 38, 5)], axis=1)
        return cls(rng.random(), rng.normal(1, 0.03), rng.normal(1, 0.03), eyes, rng.normal(17, 0.8), spots)


class _Pen:
    """Draws on a picture that is turned, scaled and shifted as the pose of the head says."""

    def __init__(self, image: Image.Image, rng: np.random.Generator):
        self.pen = ImageDraw.Draw(image)
        angle, scale = rng.normal(0, 0.05), rng.normal(1.2, 0.03) * _FINER
        self.scale = scale
        self.turn = scale * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        self.shift = _FINER * (np.array([WIDTH / 2, 107]) + rng.normal(0, 1.5, 2))

    def _place(self, points: np.ndarray) -> list[float]:
        return (np.asarray(points, dtype=float) @ self.turn + self.shift).ravel().tolist()

    def shape(self, points: np.ndarray, colour: np.ndarray) -> None:
        self.pen.polygon(self._place(points), fill=_rgb(colour))

    def oval(self, x: float, y: float, rx: float, ry: float, colour: np.ndarray) -> None:
        self.shape(_CIRCLE * (rx, ry) + (x, y), colour)

    def line(self, points: np.ndarray, width: float, colour: np.ndarray) -> None:
        self.pen.line(self._place(points), fill=_rgb(colour), width=max(1, round(width * self.scale)), joint="curve")


def _rgb(colour: np.ndarray) -> tuple[int, ...]:
    return tuple(min(max(int(part), 0), 255) for part in colour)


def _mix(first: np.ndarray, second: np.ndarray, share: float) -> np.ndarray:
    return np.asarray(first) * (1 - share) + np.asarray(second) * share


def _bow(x: float, half: float, middle: float, ends: float, points: int = 9) -> np.ndarray:
    """Return a parabola around x: at height `middle` there, at height `ends` at both sides."""
    steps = np.linspace(-1, 1, points)
    return np.stack([x + half * steps, middle + (ends - middle) * steps**2], axis=1)


def draw_face(has: dict[str, bool], person: Person, rng: np.random.Generator) -> Image.Image:
    """Draw one picture of a person with the attributes that `has` names; `rng` decides pose, light and clothes."""
    backdrop = rng.uniform(100, 210) + rng.normal(0, 14, 3)
    image = Image.new("RGB", (WIDTH * _FINER, HEIGHT * _FINER), _rgb(backdrop))
    pen = _Pen(image, rng)
    light, dark = np.array([238, 190, 160]), np.array([150, 100, 72])
    skin = np.array([250, 240, 236]) if has["Pale_Skin"] else _mix(light, dark, person.tan)
    hair_colours = [np.array(colour) for name, colour in HAIR.items() if has[name]] or [np.array(_OTHER_HAIR)]
    wide = person.wide * (36 + 8 * has["Chubby"] + 2 * has["Male"] - 3 * has["Oval_Face"])
    tall = person.tall * (52 + 6 * has["Oval_Face"])
    # A superellipse: an oval face is an ellipse, others are squarer, most of all men's.
    power = 2 / (2.0 if has["Oval_Face"] else 3.2 if has["Male"] else 2.6)
    head = np.sign(_CIRCLE) * np.abs(_CIRCLE) ** power * (wide, tall)
    _hair_behind(pen, has, hair_colours, wide)
    _body(pen, has, skin, rng)
    for side in (-1, 1):
        pen.oval(side * wide, 0, 6, 9, _mix(skin, _DARK, 0.12))
    pen.shape(head, skin)
    _beard(pen, has, skin, hair_colours[0], head)
    _skin_marks(pen, has, skin, person, wide, tall)
    for side in (-1, 1):
        _eye(pen, has, person, side * person.spacing, hair_colours[0])
    _nose(pen, has, skin)
    _mouth(pen, has, skin)
    _hair_before(pen, has, hair_colours, wide, tall)
    _worn(pen, has, wide, tall, rng)
    image = image.reduce(_FINER)
    if has["Blurry"]:
        image = image.filter(ImageFilter.BoxBlur(4))
    return _lit(image, rng)


def _hair_behind(pen: _Pen, has: dict[str, bool], colours: list[np.ndarray], wide: float) -> None:
    """Long hair falls behind the head; a man's ends at the ears."""
    if has["Bald"]:
        return
    bottom = 12 if has["Male"] else 62
    side = np.linspace(-40, bottom, 22)
    swell = 5 * np.sin(side / 4.2) if has["Wavy_Hair"] else np.zeros_like(side)
    edge = wide + 8 + swell + (6 if has["Wavy_Hair"] else 0)
    outline = np.concatenate([np.stack([edge, side], 1), np.stack([-edge, side], 1)[::-1]])
    pen.shape(outline, colours[0])
    _strands(pen, has, colours, wide + 3, (-20, bottom - 3))


def _strands(
    pen: _Pen, has: dict[str, bool], colours: list[np.ndarray], x: float, between: tuple[float, float]
) -> None:
    """Lines in the hair at both sides: waves, straight lines, or none; and the further colours of mixed hair."""
    y = np.linspace(*between, 14)
    shine = _mix(colours[0], _WHITE, 0.35)
    for side in (-1, 1):
        for number, colour in enumerate(colours[1:]):
            pen.line(np.stack([np.full_like(y, side * (x + 2 - 5 * number)), y], 1), 5, colour)
        if has["Wavy_Hair"]:
            pen.line(np.stack([side * (x + 3) + 3 * np.sin(y / 4.2), y], 1), 2, shine)
        if has["Straight_Hair"]:
            for offset in (-1, 3, 7):
                pen.line([(side * (x + offset), between[0]), (side * (x + offset), between[1])], 1.3, shine)


def _body(pen: _Pen, has: dict[str, bool], skin: np.ndarray, rng: np.random.Generator) -> None:
    neck, shoulders = (24, 78) if has["Male"] else (17, 62)
    cloth = rng.uniform(40, 190) + rng.normal(0, 25, 3)
    edge = [(-shoulders, 120), (10 - shoulders, 68), (-neck, 56), (neck, 56), (shoulders - 10, 68), (shoulders, 120)]
    pen.shape(edge, cloth)
    pen.shape([(-neck, 30), (neck, 30), (neck, 58), (0, 70), (-neck, 58)], _mix(skin, _DARK, 0.15))
    if has["Double_Chin"]:
        pen.oval(0, 46, 27, 13, _mix(skin, _DARK, 0.05))
        pen.line(_bow(0, 25, 60, 46), 2.5, _mix(skin, _DARK, 0.45))
    if has["Wearing_Necktie"]:
        pen.shape([(-neck - 4, 54), (0, 70), (neck + 4, 54), (neck + 10, 68), (0, 84), (-neck - 10, 68)], _WHITE)
        tie = np.array([(200, 30, 30), (30, 50, 170), (20, 120, 60)][rng.integers(3)])
        pen.shape([(-9, 59), (9, 59), (6, 69), (13, 120), (-13, 120), (-6, 69)], tie)
    if has["Wearing_Necklace"]:
        for x, y in _bow(0, neck + 5, 70, 55, 11):
            pen.oval(x, y, 3.2, 3.2, np.array([255, 225, 60]))


def _beard(pen: _Pen, has: dict[str, bool], skin: np.ndarray, hair: np.ndarray, head: np.ndarray) -> None:
    hairy = _mix(hair, _DARK, 0.35)
    lower = head[(head[:, 1] > 12)]
    if has["5_o_Clock_Shadow"]:
        pen.shape(np.concatenate([lower, [(-12, 19), (12, 19)]]), _mix(skin, np.array([60, 70, 90]), 0.45))
    if not has["No_Beard"]:
        pen.shape(np.concatenate([lower, lower[::-1] * (0.76, 0.76)]), hairy)
    if has["Sideburns"]:
        for side in (-1, 1):
            x = side * np.abs(head[:, 0]).max()
            pen.shape([(x, -14), (x - side * 9, -14), (x - side * 7, 20), (x, 20)], hairy)
    if has["Goatee"]:
        pen.oval(0, 45, 11, 9, hairy)
    if has["Mustache"]:
        for side in (-1, 1):
            pen.oval(side * 8, 23.5, 9, 4, hairy)


def _skin_marks(pen: _Pen, has: dict[str, bool], skin: np.ndarray, person: Person, wide: float, tall: float) -> None:
    deep = _mix(skin, _DARK, 0.4)
    for side in (-1, 1):
        if has["Rosy_Cheeks"]:
            pen.oval(side * 24, 14, 9, 7, _mix(skin, np.array([255, 60, 90]), 0.6))
        if has["High_Cheekbones"]:
            pen.line([(side * 14, 13), (side * (wide - 3), 2)], 4.5, _mix(skin, _WHITE, 0.75))
            pen.line([(side * 14, 18), (side * (wide - 5), 9)], 2.5, _mix(skin, _DARK, 0.3))
        if has["Chubby"]:
            pen.line(_bow(side * (wide - 12), 7, 34, 27), 2, _mix(skin, _DARK, 0.25))
        if not has["Young"]:
            pen.line([(side * 13, 12), (side * 21, 30)], 2, deep)
    if not has["Young"]:
        for y in (-32, -38):
            pen.line(_bow(0, 18, y, y + 3), 2, deep)
    if not has["Attractive"]:
        for x, y in person.spots:
            pen.oval(x, y, 2.3, 2.3, _mix(skin, np.array([90, 40, 20]), 0.75))


def _eye(pen: _Pen, has: dict[str, bool], person: Person, x: float, hair: np.ndarray) -> None:
    y, side = -9, np.sign(x)
    large = 1.25 if has["Attractive"] else 0.95
    half, high = 8 * large, (2.2 if has["Narrow_Eyes"] else 5.5) * large
    if has["Heavy_Makeup"]:
        pen.oval(x, y - 3, half + 4, 9, np.array([130, 60, 170]))
    if has["Bags_Under_Eyes"]:
        pen.oval(x, y + 5.5, half, 6.5, np.array([120, 90, 120]))
    pen.oval(x, y, half, high, _WHITE)
    pen.oval(x, y, min(4.2, 2 * high) * large, min(4.2 * large, high), np.array(person.eyes))
    pen.oval(x, y, 2, min(2, high), _BLACK)
    if has["Attractive"]:
        pen.oval(x + 2, y - 2, 1.7, 1.4, _WHITE)
    pen.line(_bow(x, half + 1, y - high, y), 3 if has["Heavy_Makeup"] else 1.2, _BLACK)
    brow = _mix(hair, _DARK, 0.5)
    width = 6.5 if has["Bushy_Eyebrows"] else 2.6
    if has["Arched_Eyebrows"]:
        pen.line([(x - side * 10, y - 11), (x + side * 3, y - 20), (x + side * 11, y - 10)], width, brow)
    else:
        pen.line([(x - 10, y - 13), (x + 10, y - 13)], width, brow)


def _nose(pen: _Pen, has: dict[str, bool], skin: np.ndarray) -> None:
    shade = _mix(skin, _DARK, 0.28)
    half, high = (11, 7) if has["Big_Nose"] else (6, 4)
    if has["Pointy_Nose"]:
        pen.shape([(-2, -6), (2, -6), (half + 1, 11), (0, 21), (-half - 1, 11)], shade)
        pen.line([(0, -4), (0, 16)], 2, _mix(skin, _WHITE, 0.7))
    else:
        pen.line([(0, -4), (0, 10)], 2, shade)
        pen.oval(0, 12, half, high, shade)
    for side in (-1, 1):
        pen.oval(side * half * 0.5, 14, 1.5, 1.2, _DARK)


def _mouth(pen: _Pen, has: dict[str, bool], skin: np.ndarray) -> None:
    lips = np.array([205, 10, 45]) if has["Wearing_Lipstick"] else _mix(skin, np.array([120, 50, 50]), 0.45)
    thick = 6.5 if has["Big_Lips"] else 3
    half, bend = (18, 9) if has["Smiling"] else (13, -1.5)
    gap = 6 if has["Mouth_Slightly_Open"] else 0
    upper, lower = _bow(0, half, 31, 31 - bend), _bow(0, half, 31 + gap, 31 - bend)
    if gap:
        pen.shape(np.concatenate([upper, lower[::-1]]), np.array([70, 8, 16]))
        pen.shape(np.concatenate([upper, upper[::-1] * (0.8, 1) + (0, 2.8)]), _WHITE)
    pen.line(upper - (0, thick / 2), thick, lips)
    pen.line(lower - (0, -thick / 2), thick, lips)
    if not gap:
        pen.line(upper, 1.3, _mix(lips, _BLACK, 0.6))


def _hair_before(pen: _Pen, has: dict[str, bool], colours: list[np.ndarray], wide: float, tall: float) -> None:
    """The hair on the head, down to the hairline."""
    if has["Bald"]:
        pen.oval(-8, -tall + 12, 7, 4, _WHITE)  # a shining spot
        return
    angle = np.linspace(np.pi * 1.02, np.pi * 1.98, 28)
    bumps = 4 * np.sin(np.arange(28) * 1.6) if has["Wavy_Hair"] else 0
    top = np.stack([(wide + 8 + bumps) * np.cos(angle), (tall + 9 + bumps) * np.sin(angle)], 1)
    line = -tall * 0.66
    if has["Receding_Hairline"]:
        line = -tall * 0.93
        hairline = [(wide - 1, -8), (wide - 5, -tall * 0.7), (0, line), (5 - wide, -tall * 0.7), (1 - wide, -8)]
    else:
        hairline = [(wide - 1, -8), (wide - 6, line), (0, line - 4), (6 - wide, line), (1 - wide, -8)]
    pen.shape(np.concatenate([top, hairline]), colours[0])
    for number, colour in enumerate(colours[1:]):
        x = 9 + 16 * number
        pen.shape([(-x - 5, line), (-x + 5, line), (-x + 4, -tall - 3), (-x - 4, -tall - 3)], colour)
        pen.shape([(x - 5, line), (x + 5, line), (x + 4, -tall - 3), (x - 4, -tall - 3)], colour)
    shine = _mix(colours[0], _WHITE, 0.35)
    if has["Straight_Hair"]:
        for x in (-24, -12, 0, 12, 24):
            pen.line([(x, line - 1), (x * 0.8, -tall - 4)], 1.3, shine)
    if has["Wavy_Hair"]:
        for y in (-tall - 1, -tall + 7):
            x = np.linspace(-26, 26, 18)
            pen.line(np.stack([x, y + 2.5 * np.sin(x / 3.2)], 1), 2, shine)
    if has["Bangs"]:
        x = np.linspace(-wide + 3, wide - 3, 9)
        teeth = np.stack([x, np.where(np.arange(9) % 2, -24, -19)], 1)
        pen.shape(np.concatenate([teeth, [(wide - 4, -tall * 0.8), (4 - wide, -tall * 0.8)]]), colours[0])


def _worn(pen: _Pen, has: dict[str, bool], wide: float, tall: float, rng: np.random.Generator) -> None:
    if has["Wearing_Earrings"]:
        for side in (-1, 1):
            pen.oval(side * (wide + 3), 17, 5.5, 5.5, np.array([255, 215, 0]))
            pen.oval(side * (wide + 3), 17, 2.2, 2.2, np.array([160, 120, 0]))
    if has["Eyeglasses"]:
        for side in (-1, 1):
            pen.line(_CIRCLE[[*range(40), 0, 1]] * (14, 12) + (side * 17, -9), 3, _BLACK)
            pen.line([(side * 31, -10), (side * wide, -12)], 3, _BLACK)
        pen.line([(-4, -10), (4, -10)], 3, _BLACK)
    if has["Wearing_Hat"]:
        colour = np.array([(190, 40, 40), (40, 70, 160), (40, 40, 46), (230, 220, 200)][rng.integers(4)])
        angle = np.linspace(np.pi, 2 * np.pi, 20)
        dome = np.stack([(wide + 7) * np.cos(angle), -tall * 0.62 + (tall * 0.75) * np.sin(angle)], 1)
        pen.shape(dome, colour)
        pen.shape(_CIRCLE * (wide + 22, 7) + (0, -tall * 0.62), _mix(colour, _BLACK, 0.35))


def _lit(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Light that falls from one side, and the noise of a camera."""
    slope = rng.normal(0, 0.12, 2)
    across = 1 + slope[0] * np.linspace(-1, 1, WIDTH, dtype=np.float32)
    down = rng.normal(1, 0.06) + slope[1] * np.linspace(-1, 1, HEIGHT, dtype=np.float32)
    pixels = np.asarray(image, dtype=np.float32) * (down[:, None] * across).clip(0.5, 1.5)[..., None]
    x, y = rng.integers(_NOISE_MARGIN, size=2)
    pixels += _NOISE[y : y + HEIGHT, x : x + WIDTH]
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
