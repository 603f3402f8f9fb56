"""All numbers of the paper in one figure: ours beside each, and what ours rests on."""

from dataclasses import dataclass

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from equiset.results.claims import Above, AtChance, PaperValue, Within, is_numeric
from equiset.results.figures import Canvas, Figure
from equiset.results.judging import OPEN, RESTS_ON, Judgement, Ruling, resting_on
from equiset.results.measures import IMPROVING, Number
from equiset.results.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, VERMILION

LOOKS = dict(zip(RESTS_ON.values(), zip((GREEN, BLUE, PINK, ORANGE, VERMILION), "oDPs^", strict=True), strict=True))
"""What a number rests on -> colour and marker."""
SIGNS = {"holds": "✓", "differs": "≠"}
LEFT, WIDTH, PAPER, OURS, WHOLE = 1.75, 1.9, 3.75, 4.6, 5.6
"""Where a row's parts begin, in inches: the plot, its width, the paper's value, ours, the end."""
ROW, FOOT = 0.175, 0.4
KEY, HEADING = 0.145, 0.2
"""Heights of a line of the key, and of the headings of the columns below it."""
SHADE = "0.82"
NEAR = 5
"""Up to here the axis is linear; beyond, where little is, logarithmic."""


@dataclass(frozen=True)
class Row:
    """A number that the paper states, and what was measured here."""

    judgement: Judgement
    ruling: Ruling

    @property
    def number(self) -> Number | None:
        """What was measured; None for nothing."""
        number = self.ruling.number
        return None if number is None or np.isnan(number.value) else number

    @property
    def tested(self) -> bool:
        return self.judgement.verdict not in OPEN

    @property
    def is_share(self) -> bool:
        """Whether it is a share of right answers, or a difference of such; known also where none was measured."""
        return "%" in self.judgement.claim.paper or "points" in self.judgement.claim.paper

    @property
    def label(self) -> str:
        claim = self.judgement.claim
        several = self.number is not None and not isinstance(self.ruling.condition.expect, PaperValue)
        return f"{claim.id} {claim.statement.partition(':')[0]}" + f", {self.ruling.condition.label}" * several

    @property
    def paper(self) -> str:
        match self.ruling.condition.expect:
            case Above(bound=float(bound)):
                return f"> {100 * bound:g} %"
            case Within(low=float(low), high=high):
                return f"{100 * low:g} to {100 * high:g}".replace("-", "−")
            case AtChance() if self.number and not np.isnan(self.number.chance):
                return f"chance, {self.number.format(self.number.chance)} %"
        return self.judgement.claim.paper

    @property
    def ours(self) -> str:
        if self.number is None:
            return "—"
        # Of a claim that fails, what holds has its own sign.
        sign = SIGNS.get(self.ruling.verdict, "") if self.tested else ""
        return f"{self.number.with_spread}{' %' * (self.number.unit == '%')} {sign}".rstrip()

    @property
    def expected(self) -> tuple[float, float, float]:
        """The paper's value, and from where to where ours may be, as far as the claims file says it."""
        match self.ruling.condition.expect:
            case PaperValue(value=value, spread=spread):
                return value, value - spread, value + spread
            case Above(bound=float(bound)):
                return bound, bound, np.inf
            case Within(low=low, high=high):
                return 0.0, -np.inf if low is None else low, high
            case AtChance() if self.number:
                return (self.number.chance,) * 3
        return (np.nan,) * 3


def claims_figure(judgements: list[Judgement]) -> Figure:
    """One row for each number that the paper states, and how far ours is from it."""
    rows = [row for one in judgements if is_numeric(one.claim.paper) for row in _rows(one)]
    panels = [[row for row in rows if row.is_share == share] for share in (True, False)]
    panels = [panel for panel in panels if panel]
    keys = _key(rows)
    head = KEY * ((len(keys) + 1) // 2) + HEADING
    height = head + sum(ROW * len(panel) + FOOT for panel in panels)
    canvas, top = Canvas(figsize=(WHOLE, height)), head
    for panel in panels:
        tall = ROW * len(panel)
        _draw(canvas.add_axes((LEFT / WHOLE, 1 - (top + tall) / height, WIDTH / WHOLE, tall / height)), panel)
        top += tall + FOOT
    for place, text in ((PAPER, "paper"), (OURS, "ours")):
        canvas.text(place / WHOLE, 1 - (head - 0.06) / height, text, fontsize=7, color="0.4")
    look = {"fontsize": 7, "handletextpad": 0.5, "columnspacing": 1.5}
    canvas.legend(handles=keys, loc="upper left", ncols=2, borderaxespad=0.1, **look)
    numbers = "; ".join(f"{row.label}: paper {row.paper}, ours {row.ours}" for row in rows if row.number)
    return Figure(canvas, f"The paper's numbers beside ours. {numbers or 'None of ours was measured'}.")


def _rows(judgement: Judgement) -> list[Row]:
    """Return the rows of the paper's values; if it states none, of its bounds; if none was measured, one of them."""
    rows = [Row(judgement, one) for one in judgement.rulings if one.verdict != "shown" and not one.condition.control]
    rows = [row for row in rows if isinstance(row.ruling.condition.expect, PaperValue)] or rows
    return [row for row in rows if row.number] or rows[:1]


def _key(rows: list[Row]) -> list[Artist]:
    dots = {"linestyle": "", "markersize": 5}
    keys: list[Artist] = [Patch(color=SHADE, label="the paper's value and spread, or bound")]
    for base in dict.fromkeys(resting_on(row.number) for row in rows if row.number):
        keys.append(Line2D([], [], color=LOOKS[base][0], marker=LOOKS[base][1], label=f"ours, on {base}", **dots))
    if any(row.number and not row.tested for row in rows):
        look = {"color": GREY, "marker": "o", "markerfacecolor": "white"}
        keys.append(Line2D([], [], label="open mark: the claim is open", **look, **dots))
    if any(row.number and not row.number.unfinished for row in rows):
        keys.append(Line2D([], [], color=GREY, linewidth=1.4, label="bar: 95 % interval; ±: standard deviation"))
    if any(row.number and row.number.unfinished for row in rows):
        keys.append(Line2D([], [], linestyle="", label=f"{IMPROVING} still improving at the last epoch: no bar"))
    return keys


def _ends(number: Number) -> tuple[float, float, float]:
    """Return a number and the ends of its bar: none while it still improves."""
    return (number.value, np.nan, np.nan) if number.unfinished else (number.value, number.low, number.high)


def _draw(axis: Axes, rows: list[Row]) -> None:
    factor = 100 if rows[0].is_share else 1000
    expected = np.array([row.expected for row in rows])
    ours = [_ends(row.number) if row.number else (np.nan,) * 3 for row in rows]
    bands, found = ((values - expected[:, :1]) * factor for values in (expected[:, 1:], np.array(ours)))
    # A run that was cut short may be far off: it stands at the edge, and leaves the others room.
    tested = np.array([row.tested for row in rows])
    known = np.abs(np.concatenate([bands.ravel(), found[tested if tested.any() else slice(None)].ravel()]))
    reach = 1.15 * max(known[np.isfinite(known)], default=1.0)
    for line, (row, (low, high), (value, *ends)) in enumerate(zip(rows, bands, found, strict=True)):
        low, high = np.clip((low, high), -reach, reach)
        width = max(high - low, min(reach, 4 * NEAR) / 60)
        axis.barh(line, width, 0.7, left=(low + high - width) / 2, color=SHADE, linewidth=0)
        if row.number:
            colour, marker = LOOKS[resting_on(row.number)]
            axis.plot(ends, (line, line), color=colour, linewidth=1.4)
            if abs(value) > reach:
                value, marker = np.copysign(0.93 * reach, value), "<" if value < 0 else ">"
            face = colour if row.tested else "white"
            axis.plot(value, line, marker, color=colour, markerfacecolor=face, markersize=5, clip_on=False)
        for place, text in ((PAPER, row.paper), (OURS, row.ours)):
            where = {"transform": axis.get_yaxis_transform(), "va": "center", "fontsize": 7}
            axis.text((place - LEFT) / WIDTH, line, text, color="0.4" if place == PAPER else BLACK, **where)
    axis.axvline(0, color="0.45", linewidth=0.8, zorder=0.5)
    axis.set(ylim=(len(rows) - 0.5, -0.5), xlim=(-reach, reach))
    axis.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=7)
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
