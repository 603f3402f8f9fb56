"""Colours, the same for the same kind of model in every figure; safe for the colour-blind."""

# Okabe and Ito's palette.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PINK, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#8C8C8C"

MODELS = {
    "I": ORANGE,
    "II": VERMILION,
    "III": BLUE,
    "IV": GREEN,
    "set-layer": GREEN,
    "set-pooling": BLUE,
    "graph": PINK,
    "set": GREEN,
    "mlp": SKY,
}
"""By the name that an experiment's settings give to a model. Green: set layers. Blue: pooling alone."""
MARKERS = {"I": "s", "II": "^", "III": "D", "IV": "o"}
MARKERS |= {"set-layer": "o", "set-pooling": "D", "graph": "v", "set": "o", "mlp": "s"}
"""Shapes for the same, where colours cannot be told apart."""


def shade(colour: str, share: float) -> str:
    """Return a colour, darker by a share from 0 to 1, or lighter by one from 0 to -1: for kinds of one model."""
    target = 0 if share > 0 else 255
    values = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(value + abs(share) * (target - value)):02X}" for value in values)
