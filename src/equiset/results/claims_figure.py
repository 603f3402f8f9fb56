"""All numbers of the paper in one figure: ours beside each, and what ours rests on."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from equiset.results.claims import Above, AtChance, PaperValue, Within
from equiset.results.claims_table import is_numeric
from equiset.results.figures import Canvas, Figure
from equiset.results.judging import RESTS_ON, Judgement, Ruling, resting_on
from equiset.results.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, VERMILION

LOOKS = dict(zip(RESTS_ON.values(), zip((GREEN, BLUE, PINK, ORANGE, VERMILION), "oDPs^", strict=True), strict=True))
"""What a number rests on -> colour and marker."""
SIGNS = {"reproduced": "✓", "not reproduced": "✗", "not tested": ""}
LEFT, WIDTH, PAPER, OURS, WHOLE = 1.75, 1.9, 3.75, 4.6, 5.6
"""Where a row's parts begin, in inches: the plot, its width, the paper's value, ours, the end."""
ROW, HEAD, FOOT = 0.175, 0.5, 0.4
SHADE = "0.82"
NEAR = 5
"""Up to here the axis is linear; beyond, where little is, logarithmic."""

Row = tuple[Judgement, Ruling]


def claims_figure(judgements: list[Judgement]) -> Figure:
    """One row for each number that the paper states, and how far ours is from it."""
    rows = [(one, ruling) for one in judgements if is_numeric(one.claim.paper) for ruling in _deciding(one)]
    panels = [[row for row in rows if _is_share(row) == share] for share in (True, False)]
    panels = [panel for panel in panels if panel]
    height = HEAD + sum(ROW * len(panel) + FOOT for panel in panels)
    canvas, top = Canvas(figsize=(WHOLE, height)), HEAD
    for panel in panels:
        tall = ROW * len(panel)
        _draw(canvas.add_axes((LEFT / WHOLE, 1 - (top + tall) / height, WIDTH / WHOLE, tall / height)), panel)
        top += tall + FOOT
    for place, text in ((PAPER, "paper"), (OURS, "ours")):
        canvas.text(place / WHOLE, 1 - (HEAD - 0.06) / height, text, fontsize=7, color="0.4")
    _draw_key(canvas, rows)
    seen = "; ".join(f"{_label(row)}: paper {_paper(row)}, ours {_ours(row)}" for row in rows if _ours(row) != "—")
    return Figure(canvas, f"The paper's numbers beside ours. {seen or 'None of ours was measured'}.")


def _draw_key(canvas: Canvas, rows: list[Row]) -> None:
    dots = {"linestyle": "", "markersize": 5}
    keys = [Patch(color=SHADE, label="the paper's value and spread, or bound")]
    for base in dict.fromkeys(resting_on(one.number) for _, one in rows if one.number and _ours((_, one)) != "—"):
        keys.append(Line2D([], [], color=LOOKS[base][0], marker=LOOKS[base][1], label=f"ours, on {base}", **dots))
    if any(one.verdict == "not tested" and _ours((one, ruling)) != "—" for one, ruling in rows):
        look = {"color": GREY, "marker": "o", "markerfacecolor": "white"}
        keys.append(Line2D([], [], label="open mark: no test of the claim", **look, **dots))
    canvas.legend(handles=keys, loc="upper left", ncols=2, fontsize=7, handletextpad=0.5, columnspacing=1.5)


def _deciding(judgement: Judgement) -> list[Ruling]:
    """Return the rulings on the paper's values; if it states none, on its bounds; if none was measured, one of them."""
    rulings = [one for one in judgement.rulings if one.verdict != "shown" and not one.condition.control]
    rulings = [one for one in rulings if isinstance(one.condition.expect, PaperValue)] or rulings
    return [one for one in rulings if _ours((judgement, one)) != "—"] or rulings[:1]


def _is_share(row: Row) -> bool:
    """Return whether it is a share of right answers, or a difference of such; known also where none was measured."""
    return "%" in row[0].claim.paper or "points" in row[0].claim.paper


def _label(row: Row) -> str:
    name = row[0].claim.statement.partition(":")[0]
    several = _ours(row) != "—" and not isinstance(row[1].condition.expect, PaperValue)
    return f"{row[0].claim.id} {name}" + f", {row[1].condition.label}" * several


def _paper(row: Row) -> str:
    match row[1].condition.expect:
        case Above(bound=float(bound)):
            return f"> {100 * bound:g} %"
        case Within(low=float(low), high=high):
            return f"{100 * low:g} to {100 * high:g}".replace("-", "−")
        case AtChance() if (number := row[1].number) and not np.isnan(number.chance):
            return f"chance, {number.write(number.chance)} %"
    return row[0].claim.paper


def _ours(row: Row) -> str:
    number = row[1].number
    if number is None or np.isnan(number.value):
        return "—"
    # A verdict may do without the end of the training: a network that cannot learn is at chance all along.
    tested = row[0].verdict != "not tested"
    shown = number.shown if number.unfinished and tested else number.with_spread
    # Of a claim that fails, what holds has its own sign.
    return f"{shown}{' %' * (number.unit == '%')} {SIGNS[row[1].verdict] if tested else ''}".rstrip()


def _expected(row: Row) -> tuple[float, float, float]:
    """Return the paper's value, and from where to where ours may be, as far as the claims file says it."""
    number = row[1].number
    match row[1].condition.expect:
        case PaperValue(value=value, spread=spread):
            return value, value - spread, value + spread
        case Above(bound=float(bound)):
            return bound, bound, np.inf
        case Within(low=low, high=high):
            return 0.0, -np.inf if low is None else low, high
        case AtChance() if number:
            return number.chance, number.chance, number.chance
    return np.nan, np.nan, np.nan


def _draw(axis: Axes, rows: list[Row]) -> None:
    factor = 100 if _is_share(rows[0]) else 1000
    expected = np.array([_expected(row) for row in rows])
    ours = [row[1].number for row in rows]
    found = np.array([(one.value, one.low, one.high) if one else (np.nan,) * 3 for one in ours])
    bands, found = ((values - expected[:, :1]) * factor for values in (expected[:, 1:], found))
    # A run that was cut short may be far off: it stands at the edge, and leaves the others room.
    tested = np.array([row[0].verdict != "not tested" for row in rows])
    known = np.abs(np.concatenate([bands.ravel(), found[tested if tested.any() else slice(None)].ravel()]))
    reach = 1.15 * max(known[np.isfinite(known)], default=1.0)
    for line, (row, number, (low, high), (value, *ends)) in enumerate(zip(rows, ours, bands, found, strict=True)):
        low, high = np.clip((low, high), -reach, reach)
        width = max(high - low, min(reach, 4 * NEAR) / 60)
        axis.barh(line, width, 0.7, left=(low + high - width) / 2, color=SHADE, linewidth=0)
        if _ours(row) != "—":
            colour, marker = LOOKS[resting_on(number)]
            face = "white" if row[0].verdict == "not tested" else colour
            axis.plot(ends, (line, line), color=colour, linewidth=1.4)
            if abs(value) > reach:
                value, marker = np.copysign(0.93 * reach, value), "<" if value < 0 else ">"
            axis.plot(value, line, marker, color=colour, markerfacecolor=face, markersize=5, clip_on=False)
        for place, text in ((PAPER, _paper(row)), (OURS, _ours(row))):
            where = {"transform": axis.get_yaxis_transform(), "va": "center", "fontsize": 7}
            axis.text((place - LEFT) / WIDTH, line, text, color="0.4" if place == PAPER else BLACK, **where)
    axis.axvline(0, color="0.45", linewidth=0.8, zorder=0.5)
    axis.set(ylim=(len(rows) - 0.5, -0.5), xlim=(-reach, reach))
    axis.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=7)
    axis.tick_params(axis="both", length=0, labelsize=7)
    if reach > 4 * NEAR:
        axis.set_xscale("symlog", linthresh=NEAR, linscale=0.6)
        ticks = [tick for tick in (-40, -10, -3, 0, 3, 10, 40) if abs(tick) < reach]
        axis.set_xticks(ticks, [str(tick).replace("-", "−") for tick in ticks])
        axis.minorticks_off()
    else:
        axis.locator_params(axis="x", nbins=5)
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    unit = "points" if factor == 100 else "thousandths"
    beyond = f", logarithmic beyond {NEAR}" * (axis.get_xscale() != "linear")
    axis.set_xlabel(f"ours − paper ({unit}{beyond})", fontsize=7, labelpad=1)
