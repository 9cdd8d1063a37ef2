"""One colour per entity type, the same in light and dark, in the editor and in every chart."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.colours import MARKS


@dataclass(frozen=True, slots=True)
class EntityColour:
    """A colour in its five uses, as `#rrggbb`.

    `mark` draws lines and bars on either background (contrast at least 3:1 on both); the other four are a pair of
    background and text for light and for dark screens (contrast at least 4.5:1, on the bare background too).
    """

    mark: str
    light_fill: str
    light_text: str
    dark_fill: str
    dark_text: str


# Background and text of each of MARKS, light and dark; made in OKLCH with equal lightness per column.
_PAIRS = (
    ("#d8eafe", "#054980", "#16324d", "#a2cfff"),
    ("#fde0db", "#7f2117", "#4a241e", "#feb6a9"),
    ("#d4f1d8", "#005725", "#17391f", "#95dfa4"),
    ("#f0e1fd", "#5d2e7b", "#3a2747", "#e0b7ff"),
    ("#f8e5c7", "#5f4202", "#402c05", "#f0c374"),
    ("#c6f2f4", "#065256", "#01383b", "#65e0e7"),
    ("#fedee7", "#7b1f45", "#48222f", "#feb1c8"),
    ("#e1eecd", "#3c5004", "#293510", "#bad787"),
    ("#e3e6fe", "#3d3b8b", "#2b2c4e", "#c0c6fd"),
    ("#ffe1cf", "#6e3602", "#47270f", "#ffb98a"),
    ("#d8e2f6", "#35476e", "#2f384a", "#c1d4fd"),
    ("#f3dcd1", "#673b26", "#483229", "#f7c9b4"),
    ("#d0e8dc", "#1a533e", "#263e33", "#b0e1ca"),
    ("#ecdbed", "#5b3a5c", "#413242", "#e9c7ea"),
    ("#e7e2cb", "#544714", "#3e3823", "#e0d5a8"),
    ("#cce7ee", "#02515f", "#213d43", "#a7dfed"),
    ("#f5dadb", "#68373b", "#483132", "#f9c5c8"),
    ("#d7e7d4", "#32512c", "#2e3d2b", "#c0dfb9"),
    ("#e2def4", "#4a4069", "#393448", "#d6cdf8"),
    ("#efdecc", "#604018", "#443524", "#eeceaa"),
)
PALETTE = tuple(EntityColour(mark, *pairs) for mark, pairs in zip(MARKS, _PAIRS, strict=True))


def entity_colour(index: int) -> EntityColour:
    """The colour of the entity type at an index of its domain's list; the palette wraps around."""
    return PALETTE[index % len(PALETTE)]


def mark_colours(count: int) -> list[str]:
    """The first `count` mark colours, for a chart with one colour per type."""
    return [entity_colour(index).mark for index in range(count)]


def palette_css() -> str:
    """CSS classes `.t0` … that set `--mark`, `--fill` and `--ink` for a light root and for `[data-scheme=dark]`."""
    rules = []
    for index, colour in enumerate(PALETTE):
        rules.append(f".t{index}{{--mark:{colour.mark};--fill:{colour.light_fill};--ink:{colour.light_text}}}")
        rules.append(f"[data-scheme=dark] .t{index}{{--fill:{colour.dark_fill};--ink:{colour.dark_text}}}")
    return "\n".join(rules)
