"""Sentences in from uploaded files, and layers out as files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from crossner_core.errors import BadInput
from crossner_core.formats import group_files
from crossner_core.formats.base import (
    format_ids,
    get_format,
    known_suffixes,
    options_from_text,
    own_options,
    written_ids,
)
from crossner_core.type_maps import load_type_map, type_map_ids
from pages import shell
from pages.components import under_way
from pages.components.lazy_download import download_problem, forget_problem, lazy_download
from pages.components.marked_text import as_text
from workbench import out_of_process
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.data import archive, browsing, exchange, staging
from workbench.data.exchange import ImportOutcome, Preview
from workbench.data.layers import LAYERS
from workbench.data.packing import in_numbers
from workbench.http import uploads
from workbench.jobs import queue

SPLIT_WORDS = {
    "pool": "pool – to annotate and to train on",
    "dev": "dev – to choose between models",
    "test": "test – to score models",
}
_ANNOTATION_WORDS = {
    "suggestions": "becomes suggestions – all stages follow",
    "first": "is annotator 1's work – check and adjudication follow",
    "gold": "is gold – nothing follows",
    exchange.NONE: "is left out",
}
_LAYER_WORDS = {
    "gold": "Gold – what the expert settled, or was imported as gold",
    "first": "First – what annotator 1 sent",
    "second": "Second – what annotator 2 sent",
    "suggestions": "Suggestions – what machines proposed",
    "sentences": "All sentences – with gold where there is some",
}
_ROUND, _SKIPPED, _SEEN = "data:round", "data:skipped", "data:seen"


def suffixes() -> list[str]:
    """Return the file name endings of all formats."""
    return [suffix.lstrip(".") for suffix in known_suffixes()]


def format_choice(key: str) -> str | None:
    """Ask for the format of files; None means to detect it for each file."""
    names = {"": "detect automatically"} | {id_: f"{id_} – {get_format(id_).title}" for id_ in format_ids()}
    return st.selectbox("Format", list(names), format_func=names.__getitem__, key=key) or None


def type_map_choice(key: str) -> dict[str, Any]:
    """Ask how entity types of the files are renamed; return the reading options for it."""
    maps = {"": "as in the files"} | {id_: f"{id_} – {load_type_map(id_).title}" for id_ in type_map_ids()}
    chosen = st.selectbox(
        "Entity types",
        list(maps),
        format_func=maps.__getitem__,
        key=key,
        help="A type map renames the types of a known corpus, or merges some of them. It must name every type.",
    )
    return load_type_map(chosen).options if chosen else {}


@dataclass(frozen=True, slots=True)
class ChosenFiles:
    """Uploaded files and how they are to be read: the options of `import_files`."""

    files: Sequence[UploadedFile]
    reading: Mapping[str, Any]

    @property
    def named(self) -> list[tuple[str, bytes]]:
        """The files as names with their bytes."""
        return [(file.name, file.getvalue()) for file in self.files]

    @property
    def sizes(self) -> list[tuple[str, int]]:
        """The files as names with their numbers of bytes."""
        return [(file.name, file.size) for file in self.files]

    @property
    def ids(self) -> tuple[str, ...]:
        """What names these uploads in this session."""
        return tuple(file.file_id for file in self.files)


def ask_files(prefix: str, scope: object, turn: int, *, folded: bool = False) -> ChosenFiles:
    """Draw the upload and how files are read, the rarer choices `folded` away.

    Keys begin with `prefix`, and a new `turn` empties the upload.
    """
    left, right = st.columns([3, 2], gap="medium")
    with left:
        files = st.file_uploader(
            "Files (UTF-8)",
            type=suffixes(),
            accept_multiple_files=True,
            key=f"{prefix}:files:{turn}",
            max_upload_size=exchange.MAX_BYTES // 1_000_000,
            help=f"{exchange.MAX_BYTES // 1_000_000} MB a file, {uploads.MOST_BYTES // 1_000_000} MB in all.",
        )
    with right:
        rarer = st.container()
        split = st.selectbox(
            "Split", list(SPLIT_WORDS), format_func=SPLIT_WORDS.__getitem__, key=f"{prefix}:into:{scope}"
        )
        annotation = st.selectbox(
            "Annotation in the files",
            list(_ANNOTATION_WORDS),
            format_func=_ANNOTATION_WORDS.__getitem__,
            key=f"{prefix}:annotation:{scope}",
            help="Models are trained and scored on gold: choose it for what people have finished.",
        )
        last = st.popover("How they are read") if folded else st.container()
    with last if folded else rarer:
        format = format_choice(f"{prefix}:format")
        options = type_map_choice(f"{prefix}:type-map") | _format_options(format, prefix)
    with last:
        skip_bad = st.toggle(
            "Skip bad sentences",
            key=f"{prefix}:skip:{scope}",
            help="Off: one fault rejects all files. On: bad sentences are left out and listed.",
        )
    reading = {"format": format, "split": split, "annotation": annotation, "skip_bad": skip_bad, "options": options}
    return ChosenFiles(files or (), reading)


def import_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the upload, what the files hold, and the button that brings them in."""
    skipped_last_time()
    with shell.shown_errors():
        if _job_of_import(actor, campaign):
            return
    # A new key empties the uploader once its files are in.
    chosen = ask_files("data", campaign.id, st.session_state.setdefault(_ROUND, 0))
    if not chosen.files:
        examples()
        return
    if staging.seconds_for(chosen.sizes, chosen.reading["format"]) >= staging.LONG:
        with shell.shown_errors():
            _start_import(actor, campaign, chosen)
        return
    with shell.shown_errors():
        fit = look(chosen, campaign.domain.type_names)
        if st.button(f"Import into {as_text(campaign.name)}", type="primary", disabled=not fit):
            with st.spinner("Reading, checking, pre-annotating …"):
                outcome = out_of_process.call(
                    exchange.import_files,
                    shell.store(),
                    actor,
                    campaign.id,
                    chosen.named,
                    **chosen.reading,
                )
            _finish(outcome)


def _job_of_import(actor: Actor, campaign: CampaignView) -> bool:
    """Draw the import that the worker is at, or how its last one ended; return whether it is under way."""

    def find() -> queue.JobView | None:
        return queue.newest_job(shell.store(), actor, staging.KIND, campaign.id)

    job = find()
    if job is None:
        return False
    if job.is_under_way:
        under_way.worker_line()
        under_way.watched_job(actor, find, key="data:cancel-import", cancel="Cancel the import")
        return True
    with st.expander(f"The last large import: {job.state}", expanded=job.state == "failed"):
        if job.state != "failed":
            st.caption(as_text(job.message))
        under_way.job_state(actor, job, key="data:last-import")
        under_way.job_log(actor, job)
    return False


def _start_import(actor: Actor, campaign: CampaignView, chosen: ChosenFiles) -> None:
    """Draw the button that leaves files to the worker which take long to read."""
    seconds = staging.seconds_for(chosen.sizes, chosen.reading["format"])
    st.caption(
        f"These files take about {max(seconds / 60, 1):,.0f} min: the worker reads, checks and imports them, all or "
        "none. It says at the end what they held that is not imported."
    )
    if st.button(f"Import into {as_text(campaign.name)}", type="primary", key="data:import-apart"):
        files = [(file.name, file.getbuffer()) for file in chosen.files]
        staging.start_import(shell.store(), actor, campaign.id, files, **chosen.reading)
        st.session_state[_ROUND] += 1
        st.rerun()


def _format_options(format: str | None, prefix: str) -> dict[str, Any]:
    if format is None:
        return {}
    if format != "plain":
        return options_from_text(format, dict(_asked(format, prefix)))
    pieces = {"lines": "one sentence per line", "paragraphs": "paragraphs, to be split into sentences"}
    return {"split": st.radio("The text is", list(pieces), format_func=pieces.__getitem__, key=f"{prefix}:pieces")}


def _asked(format: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Ask for a format's own options; yield those that are given."""
    for each in own_options(format):
        label, key = each.name.replace("_", " ").capitalize(), f"{prefix}:{each.name}"
        choices = each.metadata.get("choices")
        if choices or each.type == "bool":
            values = list(choices or ("yes", "no"))
            usual = values.index(each.default) if choices else int(not each.default)
            yield each.name, st.selectbox(label, values, index=usual, key=key, help=each.metadata["doc"])
        elif value := st.text_input(label, key=key, help=each.metadata["doc"]).strip():
            yield each.name, value


def examples() -> None:
    """Show what files of each format look like."""
    with st.expander("What such files look like"):
        for id_ in format_ids():
            known = get_format(id_)
            st.caption(f"{known.title} · {' '.join(known.suffixes)}")
            if known.example:
                st.code(known.example, language=None, wrap_lines=True)


def look(chosen: ChosenFiles, types: Sequence[str]) -> bool:
    """Show what each file or group of files holds and what is wrong for these types; return whether they fit."""
    files, format, options = chosen.files, chosen.reading["format"], chosen.reading["options"]
    skip_bad = chosen.reading["skip_bad"]
    wanted = types if chosen.reading["annotation"] != exchange.NONE else None
    rows: list[dict[str, str | int]] = []
    problems: list[str] = []
    refused: list[str] = []
    notes: list[str] = []
    for known, indices in group_files([file.name for file in files], format):
        group = [files[index] for index in indices]
        seen = _seen(group, known, wanted, options)
        if isinstance(seen, BadInput):
            refused.append(_short(seen))
            problems.extend(seen.problems)
        else:
            rows.append(_row(", ".join(file.name for file in group), seen))
            problems.extend(seen.problems)
            notes += seen.notes
    if rows:
        st.dataframe(rows, hide_index=True)
    for note in dict.fromkeys(notes):
        st.caption(as_text(note))
    for line in filter(None, refused):
        st.error(as_text(line))
    if problems:
        _list(
            problems, "To be skipped by the import:" if skip_bad else "Wrong in these files; nothing can be imported:"
        )
    return not refused and (skip_bad or not problems)


def _short(error: BadInput) -> str:
    """Return the text before the list of faults, which is drawn separately."""
    text = str(error)
    return (text.partition(error.problems[0])[0] if error.problems else text).strip()


def _row(name: str, seen: Preview) -> dict[str, str | int]:
    return {
        "File": name,
        "Format": seen.format,
        "Sentences": seen.sentences,
        "Annotated": seen.annotated,
        "Faults": len(seen.problems),
        "Not imported": in_numbers(seen.losses) or "–",
        "Types": ", ".join(seen.types) or "–",
        "Begins": seen.first[0][:120] if seen.first else "",
    }


def _seen(
    files: Sequence[UploadedFile], format: str | None, types: Sequence[str] | None, options: dict[str, Any]
) -> Preview | BadInput:
    """Preview files once per set of choices; large ones take seconds."""
    key = (tuple(file.file_id for file in files), format, types, json.dumps(options, sort_keys=True))
    seen: dict[object, Preview | BadInput] = st.session_state.setdefault(_SEEN, {})
    if key not in seen:
        try:
            with st.spinner("Reading …"):
                seen[key] = out_of_process.call(
                    exchange.preview,
                    [(file.name, file.getvalue()) for file in files],
                    format=format,
                    types=types,
                    options=options,
                )
        except BadInput as error:
            seen[key] = error
    return seen[key]


def _list(problems: Sequence[str], heading: str) -> None:
    st.warning(f"{heading} {len(problems)} fault{'s' if len(problems) != 1 else ''}.")
    st.code("\n".join(problems), language=None, wrap_lines=True, height=min(60 + 24 * len(problems), 240))


def _finish(outcome: ImportOutcome) -> None:
    """Keep the message for the next run, and empty the uploader."""
    are_in = "sentence imported" if outcome.added == 1 else "sentences imported"
    parts = [f"{outcome.added} {are_in}" + (f", {outcome.gold} of them with gold" if outcome.gold else "")]
    if outcome.first:
        parts.append(f"{outcome.first} wait for the check")
    if outcome.suggestions:
        parts.append(f"{outcome.suggestions} have suggestions from the files")
    if outcome.duplicates:
        parts.append(f"{outcome.duplicates} were already there and were left out")
    if outcome.problems:
        parts.append(f"{len(outcome.problems)} were skipped")
    shell.note("; ".join(parts) + "." + (f" {outcome.note}" if outcome.note else ""))
    remember_skipped(outcome.problems, outcome.again)
    st.session_state[_ROUND] += 1
    st.session_state.pop(_SEEN, None)
    st.rerun()


def remember_skipped(problems: Sequence[str], again: Sequence[str] = ()) -> None:
    """Keep what an import left out, to be listed at the next run."""
    st.session_state[_SKIPPED] = (tuple(problems), tuple(again))


def skipped_last_time() -> None:
    """List what the last import left out, once."""
    problems, again = st.session_state.pop(_SKIPPED, ((), ()))
    if problems:
        _list(problems, "Skipped in the last import:")
    if again:
        with st.expander("Duplicates that were left out"):
            st.code("\n".join(again), language=None, wrap_lines=True, height=min(60 + 24 * len(again), 240))


def export_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the choice of layer, split and format, and the downloads."""
    counts = browsing.layer_counts(shell.store(), actor, campaign.id) | {"sentences": campaign.sentences}
    which = st.radio(
        "Layer",
        list(_LAYER_WORDS),
        format_func=lambda key: f"{_LAYER_WORDS[key]} ({counts[key]})",
        key="data:layer",
        on_change=forget_problem,
    )
    with st.container(horizontal=True, gap="medium"):
        format = st.selectbox(
            "Format",
            written_ids(),
            index=written_ids().index("jsonl"),
            key="data:out",
            format_func=_format_name,
            on_change=forget_problem,
        )
        split = st.segmented_control("Split", ["all", *campaign.splits], default="all", required=True, key="data:part")
    besides, with_names = _ask_besides(which, format)
    part = None if split == "all" else split
    name = exchange.file_name(campaign.name, which if part is None else f"{which}-{part}", format)
    asked = exchange.Asked(format=format, split=part, besides=besides, with_names=with_names)
    empty = not counts[which] or (part is not None and not campaign.splits[part])
    if st.button("What would be left out?", disabled=empty, help="Writes the files without keeping them, and counts."):
        with shell.shown_errors(), st.spinner("Writing …"):
            written = exchange.export_files(shell.store(), actor, campaign.id, which, **asked)
            st.caption(f"Left out: {in_numbers(written.losses)}." if written.losses else "Nothing is left out.")
    lazy_download(
        f"Download {name}",
        partial(exchange.export_layer, shell.store(), actor, campaign.id, which, **asked),
        file_name=name,
        key=f"data:download:{which}:{format}:{split}:{'+'.join(besides)}:{with_names}",
        type="primary",
        disabled=empty,
    )
    if empty:
        st.caption("This layer has no sentences yet.")
    elif format == "plain":
        st.caption("Plain text holds the sentences alone, without annotation.")
    st.divider()
    download_campaign(actor, campaign)
    st.caption("Every layer, with who did what and when, the domain, settings, snapshots and scores; no passwords.")
    download_problem()


def _ask_besides(which: str, format: str) -> tuple[list[str], bool]:
    """Ask for the layers that stand beside the one exported, and whether people go by name."""
    own = "gold" if which == "sentences" else which
    besides = st.multiselect(
        "With these layers beside it, with people and times",
        [layer for layer in LAYERS if layer != own],
        format_func=str.capitalize,
        placeholder="None",
        key=f"data:besides:{own}",
        on_change=forget_problem,
    )
    if not besides:
        return [], False
    if not get_format(format).holds_layers:
        st.caption(f"{_format_name(format)} has no place for other layers: they would be left out.")
    with_names = st.checkbox(
        "User names",
        key="data:names",
        help="Without, people are called person-1, person-2, … by the number of their account.",
        on_change=forget_problem,
    )
    if with_names:
        st.caption(
            "The file then says who did what by name, which is personal data: give it only to those who need it."
        )
    return besides, with_names


def _format_name(id_: str) -> str:
    return get_format(id_).title


def download_campaign(actor: Actor, campaign: CampaignView) -> None:
    """Draw the button that downloads all of a campaign, an archived one too, as a zip."""
    lazy_download(
        "Download the whole campaign (zip)",
        partial(archive.export_campaign, shell.store(), actor, campaign.id),
        file_name=exchange.file_name(campaign.name, "campaign", "zip"),
        key="data:zip",
        mime="application/zip",
    )
