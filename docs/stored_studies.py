"""Write the results of studies that docs/results prints into the file that the app shows them from.

    python -m docs.stored_studies

The claims of the study `differences`, and PDALN's, go onto the page that leads to the others, too, and the papers'
tables with ours beside them onto a page of their own. Figures are taken as they are printed; nothing is measured here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from crossner_core.errors import BadInput
from crossner_core.experiments.report import put_section
from crossner_core.experiments.stored import FILE, StoredStudy
from crossner_core.experiments.studies.differences import CLAIMS
from crossner_core.experiments.tables import HOW_JUDGED, JUDGED, Measured, Table, Value
from crossner_core.folders import write_text
from docs.paper_tables import ONE_RATE, side_by_side

PAGES = Path(__file__).with_name("results")
SUMMARY, PAPERS = PAGES / "summary.md", PAGES / "papers.md"
_CLAIM = ("", "decoding", *JUDGED, "source")
_RECIPES = (
    "Recipes were chosen on dev, as decoded in the app, but for PDALN's, which is the paper's as far as it is printed, "
    f"and the nearly released one; LANER's attention is unscaled, as in its paper. {HOW_JUDGED}"
)
_HELD, _AS_PRINTED = "Decoded as in the app, held to IOB2", "Decoded as in the papers"
_BY_THE_PAPER = {
    "semi-supervised": (
        "PDALN, the paper's recipe − CRF, the paper's recipe, last epochs",
        "PDALN − CRF, 100 sentences of wikigold",
    ),
    "unsupervised": (
        "PDALN, the paper's recipe, unsupervised − CRF, the paper's recipe, unsupervised, last epochs",
        "PDALN − CRF, wikigold's test sentences read without labels",
    ),
}
"""By section of `pdaln_grid`, the difference that is PDALN's claim, and what the summary calls it."""
WRITTEN = "Written by `python -m docs.stored_studies` from the sections of these pages."
_SECTIONS = ("", "tuned", ONE_RATE, "released")
"""Sections of `differences` whose rows are on the summary."""
_SECTION = re.compile(r"<!-- begin study-(\w+?)(?:-([\w-]+))? -->\n(.*?)\n<!-- end", re.DOTALL)
_WRITTEN = re.compile(r"Written by `(?P<command>.*)` on (?P<date>\d{4}-\d\d-\d\d)\.")
_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_MEASURED = re.compile(rf"(?P<mean>–|{_NUMBER})(?: ± (?P<sd>{_NUMBER}))?(?: \[(?P<published>{_NUMBER})\])?")


def all_pages() -> str:
    """Return the text of all pages of results, one after another."""
    return "\n".join(page.read_text(encoding="utf-8") for page in sorted(PAGES.glob("*.md")))


def read_pages(text: str) -> tuple[StoredStudy, ...]:
    """Return the studies of pages of results; raise BadInput for a section that reads otherwise."""
    return tuple(_study(id, section or "", body) for id, section, body in _SECTION.findall(text))


def _study(id: str, section: str, body: str) -> StoredStudy:
    blocks = body.split("\n\n")
    written = _WRITTEN.fullmatch(blocks[2])
    if written is None:
        raise BadInput(f"docs/results: the section of {id} does not say by what it was written, but {blocks[2]!r}.")
    notes = tuple(line[2:] for block in blocks[4:] if block.startswith("- ") for line in block.splitlines())
    return StoredStudy(id, section, blocks[3], written["command"], written["date"], tuple(_tables(blocks[4:])), notes)


def _tables(blocks: Sequence[str]) -> Iterator[Table]:
    for title, table, note in zip(blocks, blocks[1:], [*blocks[2:], ""], strict=False):
        if table.startswith("| "):
            header, rule, *rows = [re.split(r"(?<!\\)\|", line.strip())[1:-1] for line in table.splitlines()]
            numeric = [cell.strip() == "---:" for cell in rule]
            yield Table(
                title.strip("*"),
                tuple(cell.strip() for cell in header),
                tuple(tuple(map(_value, row, numeric)) for row in rows),
                "" if note.startswith(("**", "| ", "- ")) else note,
            )


def _value(cell: str, numeric: bool) -> Value:
    """Read a cell as it is printed: a text, a whole number, or a mean with what stands beside it."""
    text = cell.strip().replace(r"\|", "|")
    if not numeric:
        return text
    match = _MEASURED.fullmatch(text)
    if match is None:
        raise BadInput(f"docs/results: the cell {text!r} stands in a column of numbers and is none.")
    if text == "–":
        return None
    if "." not in text:
        return int(text)
    mean, sd, published = (None if match[part] in (None, "–") else float(match[part]) for part in match.groupdict())
    return Measured(mean, sd, 0, published, signed="+" in text or text.startswith("-"))


def claims(studies: Sequence[StoredStudy]) -> str:
    """Return each claim of the papers once for either way to decode: our difference, its interval and the verdict."""
    study, *others = (_of(studies, "differences", section) for section in _SECTIONS)
    (table,) = study.tables
    measured = {row[0]: row for part in (study, *others) for row in part.tables[0].rows}
    places = [table.columns.index(name) for name in _CLAIM]
    rows = [tuple(measured[claim.label][place] for place in places) for claim in CLAIMS if claim.label in measured]
    rows += [_claim_of_pdaln(_of(studies, "pdaln_grid", section), *names) for section, names in _BY_THE_PAPER.items()]
    is_held = ["argmax" not in str(row[1]) for row in rows]
    parts = [
        Table(title, _CLAIM, tuple(row for row, held in zip(rows, is_held, strict=True) if held == wanted))
        for title, wanted in ((_HELD, True), (_AS_PRINTED, False))
    ]
    tables = (f"**{part.title}**\n\n{part.to_markdown()}" for part in parts)
    measured = study.measured.partition("; the study's recipes")[0]
    five = _of(studies, "pdaln_grid", next(iter(_BY_THE_PAPER))).measured.partition("Seeds ")[2].partition(";")[0]
    return "\n\n".join([f"{measured}; PDALN's {five}. {_RECIPES} {WRITTEN}", *tables])


def _of(studies: Sequence[StoredStudy], id: str, section: str = "") -> StoredStudy:
    (study,) = (study for study in studies if (study.id, study.section) == (id, section))
    return study


def _claim_of_pdaln(study: StoredStudy, label: str, name: str) -> tuple[Value, ...]:
    """Return what the grid says of PDALN by the paper's recipe, under another name."""
    table = study.tables[-1]
    columns = [table.columns.index(column) for column in JUDGED]
    (row,) = (row for row in table.rows if row[0] == label)
    return name, "IOB2", *(row[column] for column in columns), "PDALN, table 1"


def main() -> None:
    """Write the file and the claims."""
    studies = read_pages(all_pages())
    lines = ",\n".join(json.dumps(stored.to_dict(), ensure_ascii=False) for stored in studies)
    write_text(FILE, f"[\n{lines}\n]\n")  # a line for each study, so that a change shows which
    put_section(SUMMARY, "claims", claims(studies))
    put_section(PAPERS, "papers", f"{WRITTEN}\n\n{side_by_side(studies)}")
    print(f"{len(studies)} studies in {FILE.name}, {FILE.stat().st_size:,} bytes.")


if __name__ == "__main__":
    main()
