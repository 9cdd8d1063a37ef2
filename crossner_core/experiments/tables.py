"""Tables of a study: values with mean and deviation, next to published ones; as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from crossner_core.errors import InvalidConfig

NOT_TESTED = "not tested"
JUDGED = ("difference", "95 % interval", "above 0", "above the published")
"""The columns that `judged` fills."""
HOW_JUDGED = (
    "A verdict is yes where the whole interval is above 0 or the published difference, no where it is below, else "
    "undecided."
)
_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "≥": r"$\ge$",
    "μ": r"$\mu$",
    "→": r"$\to$",
    "×": r"$\times$",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean and sample deviation of `n` runs, in the table's unit; `signed` for a difference; None if not measured."""

    mean: float | None
    sd: float | None = None
    n: int = 0
    published: float | None = None
    signed: bool = False

    def __str__(self) -> str:
        sign = "+" if self.signed else ""
        text = "–" if self.mean is None else f"{self.mean:{sign}.2f}"
        if self.sd is not None:
            text += f" ± {self.sd:.2f}"
        return text if self.published is None else f"{text} [{self.published:{sign}.2f}]"


Value = str | int | float | Measured | None


@dataclass(frozen=True)
class Table:
    """A titled table; every row has a value for each column. `note` explains the values."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        if wrong := [row for row in self.rows if len(row) != len(self.columns)]:
            raise InvalidConfig(f"Table {self.title!r} has {len(self.columns)} columns, but a row is {wrong[0]!r}.")

    def to_markdown(self) -> str:
        """Return a Markdown table."""
        numeric = self._numeric()
        rule = ["---:" if number else "---" for number in numeric]
        lines = [list(self.columns), rule, *([_text(value).replace("|", r"\|") for value in row] for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def to_csv(self) -> str:
        """Return CSV with a header; a measured column becomes four: mean, deviation, runs, published."""
        measured = [any(isinstance(row[index], Measured) for row in self.rows) for index in range(len(self.columns))]
        header = [
            name
            for column, wide in zip(self.columns, measured, strict=True)
            for name in ([column, f"{column} sd", f"{column} n", f"{column} published"] if wide else [column])
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(header)
        for row in self.rows:
            writer.writerow([part for value, wide in zip(row, measured, strict=True) for part in _parts(value, wide)])
        return out.getvalue()

    def to_latex(self) -> str:
        """Return a `tabular` that needs no package."""
        numeric = self._numeric()
        lines = [
            f"% {self.title}",
            rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in numeric)}}}",
            r"\hline",
            " & ".join(map(latex, self.columns)) + r" \\",
            r"\hline",
            # A row that begins with [ would be parsed as the optional length of the preceding line break.
            *(" & ".join(_guard(latex(_text(value))) for value in row) + r" \\" for row in self.rows),
            r"\hline",
            r"\end{tabular}",
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        rows = [[asdict(value) if isinstance(value, Measured) else value for value in row] for row in self.rows]
        return {"title": self.title, "columns": list(self.columns), "rows": rows, "note": self.note}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Table:
        """Build a table from what `to_dict` returned."""
        rows = (tuple(Measured(**value) if isinstance(value, dict) else value for value in r) for r in values["rows"])
        return cls(values["title"], tuple(values["columns"]), tuple(rows), values["note"])

    def _numeric(self) -> list[bool]:
        """Return for each column whether it has only numbers."""
        return [not any(isinstance(row[index], str) for row in self.rows) for index in range(len(self.columns))]


def summary(values: Sequence[float], *, published: float | None = None, signed: bool = False) -> Measured:
    """Return mean and sample deviation (none for a single value) of the values."""
    return Measured(
        statistics.fmean(values) if values else None,
        statistics.stdev(values) if len(values) > 1 else None,
        len(values),
        published,
        signed,
    )


def interval_of(gain: Measured) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean of paired differences by Student's t; None for fewer than two."""
    if gain.mean is None or gain.sd is None:
        return None
    from scipy.special import stdtrit

    half = float(stdtrit(gain.n - 1, 0.975)) * gain.sd / gain.n**0.5
    return gain.mean - half, gain.mean + half


def interval_words(gain: Measured) -> str:
    """Return the 95 % interval of the mean of paired differences, as a table shows it."""
    interval = interval_of(gain)
    return "–" if interval is None else f"{interval[0]:+.2f} to {interval[1]:+.2f}"


def verdict(gain: Measured, least: float = 0.0) -> str:
    """Return whether the mean of paired differences is above `least`: yes, no, undecided, one seed or not tested."""
    interval = interval_of(gain)
    if interval is None:
        return NOT_TESTED if gain.mean is None else "one seed"
    low, high = interval
    return "yes" if low > least else "no" if high < least else "undecided"


def judged(gain: Measured) -> tuple[Measured, str, str, str]:
    """Return the mean of paired differences, its interval, and the verdicts against 0 and the published difference."""
    against = "–" if gain.published is None else verdict(gain, gain.published)
    return gain, interval_words(gain), verdict(gain), against


def latex(text: str) -> str:
    """Return text with LaTeX special characters escaped."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _guard(text: str) -> str:
    return f"{{}}{text}" if text.startswith("[") else text


def _text(value: Value) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _parts(value: Value, wide: bool) -> list[str]:
    if not wide:
        return ["" if value is None else str(value)]
    if not isinstance(value, Measured):
        return ["" if value is None else str(value), "", "", ""]
    return [
        *("" if number is None else f"{number:.4f}" for number in (value.mean, value.sd)),
        str(value.n),
        "" if value.published is None else f"{value.published:.2f}",
    ]
