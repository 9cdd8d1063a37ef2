"""The page of results: each command writes its own section and leaves the others alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from crossner_core.errors import BadInput, StorageError
from crossner_core.experiments.results import StudyResult

TITLE = "# Results\n"


def put_section(path: Path, name: str, text: str) -> None:
    """Replace the section of that name, or append it; the page is created if missing.

    In a folder it is the page that has the section. Raises BadInput for a page that lacks the section's end, and for a
    folder in which no page has the section.
    """
    if path.is_dir():
        path = _page_with(path, name)
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    section = f"{begin}\n{text.strip()}\n{end}"
    try:
        page = path.read_text(encoding="utf-8") if path.exists() else TITLE
        if (start := page.find(begin)) >= 0:
            stop = page.find(end, start)
            if stop < 0:
                raise BadInput(f"{path}: {begin} has no {end} after it; restore it, or remove the beginning.")
            page = page[:start] + section + page[stop + len(end) :]
        else:
            page = f"{page.rstrip()}\n\n{section}\n"
        beside = path.with_name(f".{path.name}.new")
        beside.write_text(page, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error}.") from error


def _page_with(folder: Path, name: str) -> Path:
    """Return the page of a folder that has a section."""
    pages = sorted(folder.glob("*.md"))
    for page in pages:
        if f"<!-- begin {name} -->" in page.read_text(encoding="utf-8"):
            return page
    names = ", ".join(page.name for page in pages) or "none"
    raise BadInput(
        f"No page in {folder} has a section {name} yet; name the page to put it into ({names}), or a new one."
    )


def study_section(result: StudyResult, command: Sequence[str]) -> str:
    """Return a study as a section in Markdown: question, how it was measured, tables."""
    lines = [
        f"## {result.title}" + (f": {result.section}" if result.section else ""),
        "",
        f"{result.question} Reference: {result.reference}.",
        "",
        f"Written by `{shown_command(command)}` on {result.made_at[:10]}.",
        "",
        how_measured(result),
    ]
    for table in result.tables:
        lines += ["", f"**{table.title}**", "", table.to_markdown(), "", table.note]
    lines += ["", *(f"- {note}" for note in result.notes)]
    if result.missing:
        few = len(result.missing) == 1
        lines += ["", f"**Incomplete**: {'1 cell has' if few else f'{len(result.missing)} cells have'} no result.", ""]
        lines += [f"- {missing}" for missing in result.missing_rows]
    return "\n".join(lines)


def how_measured(result: StudyResult) -> str:
    """Return encoders, seeds, recipe and machine in words."""
    encoders = "; ".join(map(_encoder_words, result.encoders))
    changes = {name: value for name, value in result.config["recipe"].items() if name != "encoder"}
    recipe = f"recipe changes `{json.dumps(changes, sort_keys=True)}`" if changes else "the study's recipes"
    rows = result.config.get("rows")
    if rows:
        recipe += f", in single rows `{json.dumps(rows, sort_keys=True)}`"
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    parts = [
        f"Encoder{'s' if len(result.encoders) > 1 else ''} {encoders}" if encoders else "",
        f"seeds {', '.join(map(str, result.seeds))}; {recipe}" if result.cells else "",
        f"Machine: {' / '.join(result.machines)}" if result.machines else "",
        f"Versions: {versions}",
    ]
    return ". ".join(part[:1].upper() + part[1:] for part in parts if part) + "."


def _encoder_words(encoder: Mapping[str, str]) -> str:
    """Name an encoder; a folder that is called by its own hash has no name beside its label."""
    label, name, hash = (encoder[key] for key in ("label", "name", "fingerprint"))
    named = ": ".join(text for text in (label, name if name != hash or not label else "") if text)
    pretrained = f", {encoder['pretrained']}" if encoder.get("pretrained") else ""
    return f"{named} ({hash[:12]}){pretrained}"


def shown_command(arguments: Sequence[str]) -> str:
    """Return the command in a portable form: absolute and outside paths become FOLDER."""
    return f"python -m crossner_core.experiments {' '.join(map(_shown, arguments))}".strip()


def _shown(word: str) -> str:
    label, equals, value = word.partition("=")
    if equals and _is_outside(value):
        return f"{label}=FOLDER/{Path(value).name}"
    if word.endswith(".md"):
        return word if not _is_outside(word) else Path(word).name
    return "FOLDER" if _is_outside(word) else shlex.quote(word)


def _is_outside(word: str) -> bool:
    return word.startswith(("/", "../", "~")) or word == ".."
