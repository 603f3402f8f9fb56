"""Draws a face that shows forty attributes: flat shapes, plainly a drawing, each attribute with a mark of its own.

Every mark is as small and as close to the colour of its surroundings as it can be while it still shows at 64 x 64
pixels, so that faces look like calm drawings and not like caricatures. `Attractive` is a judgement and no feature of a
face: it is drawn as a bright wall on one side of the picture.

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
    "Blond_Hair": (222, 190, 120),
    "Gray_Hair": (172, 174, 178),
}
_OTHER_HAIR = (160, 84, 52)  # auburn: none of the four
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

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Person":
        eyes = ((66, 110, 170), (92, 60, 32), (70, 120, 70))[rng.integers(3)]
        return cls(rng.random(), rng.normal(1, 0.03), rng.normal(1, 0.03), eyes, rng.normal(17, 0.8))


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
    skin = np.array([250, 232, 222]) if has["Pale_Skin"] else _mix(light, dark, person.tan)
    hair_colours = [np.array(colour) for name, colour in HAIR.items() if has[name]] or [np.array(_OTHER_HAIR)]
    if has["Attractive"]:
        pen.shape([(50, -150), (150, -150), (150, 150), (50, 150)], _mix(backdrop, _WHITE, 0.6))
    wide = person.wide * (36 + 5 * has["Chubby"] + 2 * has["Male"] - 3 * has["Oval_Face"])
    tall = person.tall * (52 + 6 * has["Oval_Face"])
    # A superellipse that narrows towards the chin: an oval face is an ellipse, others are squarer, most of all men's.
    power = 2 / (2.0 if has["Oval_Face"] else 2.7 if has["Male"] else 2.4)
    head = np.sign(_CIRCLE) * np.abs(_CIRCLE) ** power * (wide, tall)
    head[:, 0] *= 1 - (0.06 if has["Chubby"] else 0.14) * (head[:, 1] / tall).clip(0) ** 2
    _hair_behind(pen, has, hair_colours, wide)
    _body(pen, has, skin, rng)
    for side in (-1, 1):
        pen.oval(side * wide, 0, 6, 9, _mix(skin, _DARK, 0.12))
    pen.shape(head, skin)
    _beard(pen, has, skin, hair_colours[0], head)
    _skin_marks(pen, has, skin, wide)
    for side in (-1, 1):
        _eye(pen, has, person, side * person.spacing, skin, hair_colours[0])
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
    side = np.linspace(-40, bottom, 44)
    swell = 3.5 + 3 * np.sin(side / 3.6) if has["Wavy_Hair"] else np.zeros_like(side)
    # Round at the top and at the ends, like hair and unlike a helmet.
    edge = wide + 7 + swell - 12 * ((-side - 15) / 25).clip(0) ** 2 - 9 * ((side - bottom + 12) / 12).clip(0) ** 2
    outline = np.concatenate([np.stack([edge, side], 1), np.stack([-edge, side], 1)[::-1]])
    pen.shape(outline, colours[0])
    _strands(pen, has, colours, wide + 3, (-20, bottom - 3))


def _strands(
    pen: _Pen, has: dict[str, bool], colours: list[np.ndarray], x: float, between: tuple[float, float]
) -> None:
    """Lines in the hair at both sides: waves, straight lines, or none; and the further colours of mixed hair."""
    y = np.linspace(*between, 28)
    shine = _mix(colours[0], _WHITE, 0.28)
    for side in (-1, 1):
        for number, colour in enumerate(colours[1:]):
            pen.line(np.stack([np.full_like(y, side * (x + 2 - 5 * number)), y], 1), 5, colour)
        if has["Wavy_Hair"]:
            pen.line(np.stack([side * (x + 2) + 2 * np.sin(y / 3.6), y], 1), 1.8, shine)
        if has["Straight_Hair"]:
            for offset in (-1, 2.5):
                pen.line([(side * (x + offset), between[0]), (side * (x + offset), between[1])], 1.3, shine)


def _body(pen: _Pen, has: dict[str, bool], skin: np.ndarray, rng: np.random.Generator) -> None:
    neck, shoulders = (24, 78) if has["Male"] else (17, 62)
    cloth = rng.uniform(40, 190) + rng.normal(0, 25, 3)
    edge = [(-shoulders, 120), (10 - shoulders, 68), (-neck, 56), (neck, 56), (shoulders - 10, 68), (shoulders, 120)]
    pen.shape(edge, cloth)
    pen.shape([(-neck, 30), (neck, 30), (neck, 58), (0, 70), (-neck, 58)], _mix(skin, _DARK, 0.15))
    if has["Double_Chin"]:
        pen.line(_bow(0, 25, 62, 47), 4.5, _mix(skin, _DARK, 0.4))
    if has["Wearing_Necktie"]:
        pen.shape([(-neck - 4, 54), (0, 70), (neck + 4, 54), (neck + 10, 68), (0, 84), (-neck - 10, 68)], _WHITE)
        tie = np.array([(150, 50, 55), (50, 65, 130), (45, 100, 75)][rng.integers(3)])
        pen.shape([(-9, 59), (9, 59), (6, 69), (13, 120), (-13, 120), (-6, 69)], tie)
    if has["Wearing_Necklace"]:
        for x, y in _bow(0, neck + 5, 70, 55, 11):
            pen.oval(x, y, 2.3, 2.3, np.array([232, 205, 110]))


def _beard(pen: _Pen, has: dict[str, bool], skin: np.ndarray, hair: np.ndarray, head: np.ndarray) -> None:
    hairy = _mix(hair, _DARK, 0.35)
    lower = head[(head[:, 1] > 12)]
    if has["5_o_Clock_Shadow"]:
        pen.shape(np.concatenate([lower, [(-12, 19), (12, 19)]]), _mix(skin, np.array([70, 75, 90]), 0.3))
    if not has["No_Beard"]:
        pen.shape(np.concatenate([lower, lower[::-1] * (0.76, 0.76)]), hairy)
    if has["Sideburns"]:
        for side in (-1, 1):
            x = side * np.abs(head[:, 0]).max()
            pen.shape([(x, -14), (x - side * 7, -14), (x - side * 5, 16), (x, 18)], hairy)
    if has["Goatee"]:
        pen.oval(0, 45, 11, 9, hairy)
    if has["Mustache"]:
        for side in (-1, 1):
            pen.oval(side * 7, 23.5, 8, 3, hairy)


def _skin_marks(pen: _Pen, has: dict[str, bool], skin: np.ndarray, wide: float) -> None:
    line = _mix(skin, _DARK, 0.36)
    for side in (-1, 1):
        if has["Rosy_Cheeks"]:
            pen.oval(side * 23, 13, 8, 6, _mix(skin, np.array([225, 90, 95]), 0.42))
        if has["High_Cheekbones"]:
            pen.shape(_CIRCLE * (8, 3.2) @ [[1, -side * 0.35], [0, 1]] + (side * 23, 6), _mix(skin, _WHITE, 0.4))
            pen.line([(side * 17, 14), (side * (wide - 4), 7)], 2, _mix(skin, _DARK, 0.2))
        if not has["Young"]:
            pen.line([(side * 12, 15), (side * 19, 29)], 2, line)
    if not has["Young"]:
        for y in (-27, -32):
            pen.line(_bow(0, 16, y, y + 1.5), 2, line)


def _eye(pen: _Pen, has: dict[str, bool], person: Person, x: float, skin: np.ndarray, hair: np.ndarray) -> None:
    y, side = -9, np.sign(x)
    half, high = 7.5, 2.2 if has["Narrow_Eyes"] else 4.6
    if has["Heavy_Makeup"]:
        pen.oval(x, y - 2.5, half + 2, 6.5, _mix(skin, np.array([105, 70, 120]), 0.6))
    if has["Bags_Under_Eyes"]:
        pen.line(_bow(x, half - 1, y + 9.5, y + 6), 4, _mix(skin, np.array([80, 60, 80]), 0.45))
    pen.oval(x, y, half, high, np.array([246, 244, 242]))
    pen.oval(x, y, min(3.9, 2 * high), min(3.9, high), np.array(person.eyes))
    pen.oval(x, y, 1.8, min(1.8, high), _BLACK)
    pen.line(_bow(x, half, y - high, y), 2 if has["Heavy_Makeup"] else 1.1, _DARK)
    brow = _mix(hair, _DARK, 0.4)
    width = 4.6 if has["Bushy_Eyebrows"] else 2.2
    # Outwards from the nose. Level brows are a slight bow, arched ones rise to a point beyond the middle.
    if has["Arched_Eyebrows"]:
        rise = np.array([(-9, -11), (-4, -14.5), (1, -17), (4, -17.5), (7, -16), (10, -12)])
    else:
        rise = np.array([(-9, -11.5), (-4, -12.3), (1, -12.5), (6, -12), (10, -10.5)])
    pen.line(rise * (side, 1) + (x, y), width, brow)


def _nose(pen: _Pen, has: dict[str, bool], skin: np.ndarray) -> None:
    shade = _mix(skin, _DARK, 0.3)
    half, high = (10.5, 6.5) if has["Big_Nose"] else (5.5, 3.5)
    if has["Pointy_Nose"]:  # seen by the shadow of one side and the light on the other
        pen.shape([(0, -6), (half, 13), (0, 18)], shade)
        pen.shape([(0, -6), (-2.5, 12), (0, 17)], _mix(skin, _WHITE, 0.4))
    else:
        pen.line([(1, -3), (2, 9)], 1.5, shade)
        pen.oval(0, 12, half, high, shade)
    for side in (-1, 1):
        pen.oval(side * half * 0.5, 14, 1.4, 1, _mix(skin, _DARK, 0.6))


def _mouth(pen: _Pen, has: dict[str, bool], skin: np.ndarray) -> None:
    lips = _mix(skin, (175, 25, 60), 0.9) if has["Wearing_Lipstick"] else _mix(skin, (125, 45, 50), 0.65)
    thick = 6.5 if has["Big_Lips"] else 3
    half, bend = (18, 9) if has["Smiling"] else (12.5, 0)
    gap = 5 if has["Mouth_Slightly_Open"] else 0
    upper, lower = _bow(0, half, 31, 31 - bend), _bow(0, half, 31 + gap, 31 - bend)
    # Lips are full in the middle and end in the corners of the mouth.
    pen.shape(np.concatenate([_bow(0, half, 31 - thick, 31 - bend), upper[::-1]]), lips)
    pen.shape(np.concatenate([_bow(0, half, 31 + gap + 1.2 * thick, 31 - bend), lower[::-1]]), lips)
    if gap:
        pen.shape(np.concatenate([upper, lower[::-1]]), np.array([90, 35, 40]))
        pen.shape(np.concatenate([upper, upper[::-1] * (0.8, 1) + (0, 2.4)]), np.array([244, 240, 236]))
    else:
        pen.line(upper, 1.2, _mix(lips, _DARK, 0.6))


def _hair_before(pen: _Pen, has: dict[str, bool], colours: list[np.ndarray], wide: float, tall: float) -> None:
    """The hair on the head, down to the hairline."""
    if has["Bald"]:
        return
    angle = np.linspace(np.pi * 1.02, np.pi * 1.98, 28)
    bumps = 2 + 2 * np.sin(np.arange(28) * 1.6) if has["Wavy_Hair"] else 0
    top = np.stack([(wide + 6 + bumps) * np.cos(angle), (tall + 7 + bumps) * np.sin(angle)], 1)
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
    shine = _mix(colours[0], _WHITE, 0.28)
    if has["Straight_Hair"]:
        for x in (-24, -12, 0, 12, 24):
            pen.line([(x, line - 1), (x * 0.8, -tall - 4)], 1.3, shine)
    if has["Wavy_Hair"]:
        for y in (-tall - 1, -tall + 7):
            x = np.linspace(-22, 22, 36)
            pen.line(np.stack([x, y + 2 * np.sin(x / 3.2)], 1), 1.8, shine)
    if has["Bangs"]:
        x = np.linspace(-wide + 3, wide - 3, 9)
        teeth = np.stack([x, np.where(np.arange(9) % 2, -25, -23)], 1)
        pen.shape(np.concatenate([teeth, [(wide - 4, -tall * 0.8), (4 - wide, -tall * 0.8)]]), colours[0])


def _worn(pen: _Pen, has: dict[str, bool], wide: float, tall: float, rng: np.random.Generator) -> None:
    if has["Wearing_Earrings"]:
        for side in (-1, 1):
            pen.oval(side * (wide + 2), 13, 3.8, 3.8, np.array([240, 210, 105]))
    if has["Eyeglasses"]:
        for side in (-1, 1):
            pen.line(_CIRCLE[[*range(40), 0, 1]] * (13, 10) + (side * 17, -9), 1.8, _DARK)
            pen.line([(side * 30, -10), (side * wide, -12)], 1.8, _DARK)
        pen.line([(-4, -10), (4, -10)], 1.8, _DARK)
    if has["Wearing_Hat"]:
        colour = np.array([(150, 60, 60), (60, 80, 130), (50, 50, 56), (220, 210, 190)][rng.integers(4)])
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
