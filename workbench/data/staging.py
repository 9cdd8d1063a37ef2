"""Import large files in bounded memory: read them into a file of sentences first, then add these in one transaction.

A job of the worker does it for uploads, which wait in the home folder; nothing is in the store before all of them is.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from crossner_core.errors import NotFound
from crossner_core.formats import group_files, stream_files
from crossner_core.formats.base import InputFile, Parsed, get_format, notes_of
from crossner_core.formats.source import OnDisk
from crossner_core.schema import FileLayout, LabelledSentence, Link, Sentence, SentenceLayout, Span, Token
from db import job_rows
from db.engine import Session, Store
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import sentences as campaign_sentences
from workbench.campaigns.domains import domain_of
from workbench.data import exchange
from workbench.data.exchange import ImportOutcome, ReadFiles
from workbench.jobs import queue
from workbench.jobs.queue import JobView
from workbench.settings import Settings, settings_of

KIND, NEW_CAMPAIGN = "import_files", "make_campaign"
"""Kinds of jobs that read uploads."""
LONG = 5.0
"""Seconds from which an import becomes a job."""
MOST_PROBLEMS = 2_000
_READING = 0.8
"""The share of the progress that is reading; the rest is writing."""
_ABANDONED_S = 3_600
_USUAL = 300_000
"""Bytes a second of a file whose content tells the format."""
_SENTENCES, _DOCUMENTS = "sentences.jsonl", "documents.jsonl"
Progress = Callable[[float, str], object]
Upload = bytes | memoryview | Path


class Stopped(Exception):
    """Reading was asked to stop."""


@dataclass
class Staged:
    """Sentences of files in a folder, ready to be added, and what became of the rest."""

    folder: Path
    sentences: int = 0
    formats: dict[str, None] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    skipped: int = 0
    losses: Counter[str] = field(default_factory=Counter)
    notes: dict[str, None] = field(default_factory=dict)

    def rows(self) -> Iterator[LabelledSentence | Sentence]:
        """Yield the sentences as they came, each with the layout of its file."""
        with (
            (self.folder / _SENTENCES).open(encoding="utf-8") as file,
            (self.folder / _DOCUMENTS).open(encoding="utf-8") as documents,
        ):
            number, layout, format = 0, FileLayout("", {}), ""
            for line in file:
                values = json.loads(line)
                while number < values[0]:
                    number += 1
                    name, format, kept = json.loads(next(documents))
                    layout = FileLayout(name, kept)
                yield _row(values, format, layout)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the documents."""
        with (self.folder / _DOCUMENTS).open(encoding="utf-8") as documents:
            return tuple(json.loads(line)[0] for line in documents)

    @property
    def read_files(self) -> ReadFiles:
        """What an outcome needs of what was read; `problems` are the first."""
        return ReadFiles((), ", ".join(self.formats), tuple(self.problems), self.losses, tuple(self.notes))


def sizes_of(files: Sequence[tuple[str, Path]]) -> list[tuple[str, int]]:
    """Return the bytes of each file, as `seconds_for` takes them."""
    return [(name, path.stat().st_size) for name, path in files]


def seconds_for(files: Sequence[tuple[str, int]], format: str | None) -> float:
    """Estimate how long an import of files (name, bytes) takes, by what is known of their formats."""
    seconds = 0.0
    for known, indices in group_files([name for name, _ in files], format):
        size = sum(files[index][1] for index in indices)
        seconds += size / (get_format(known).bytes_per_second if known else _USUAL)
    return seconds


def stage(
    files: Sequence[tuple[str, Path]],
    types: Sequence[str],
    folder: Path,
    *,
    format: str | None = None,
    annotation: str = "suggestions",
    skip_bad: bool = False,
    options: Mapping[str, Any] | None = None,
    on_progress: Progress = lambda done, message: None,
) -> Staged:
    """Read files into a folder, as `exchange.read_rows` does into memory; raises as that does.

    `on_progress` gets the share of the bytes that were read, and may raise to stop.
    """
    exchange.check_annotation(annotation)
    for name, path in files:
        exchange.check_size(name, path.stat().st_size)
    wanted = annotation != exchange.NONE
    given = [(name, OnDisk(path)) for name, path in files]
    total = max(sum(file.size for _, file in given), 1)
    staged, number = Staged(folder), 1
    reading: dict[str, Any] = {**(options or {}), "types": types if wanted else None, "skip_bad": skip_bad}
    with (
        (folder / _SENTENCES).open("w", encoding="utf-8") as out,
        (folder / _DOCUMENTS).open("w", encoding="utf-8") as documents,
    ):
        inputs: Sequence[InputFile] = given
        for piece in stream_files(inputs, format, **reading):
            _write(piece, number, wanted, out)
            _count(staged, piece)
            if not piece.more:
                json.dump([piece.name, piece.format, piece.layout.to_dict()], documents, ensure_ascii=False)
                documents.write("\n")
                number += 1
            done = sum(file.taken for _, file in given) / total
            on_progress(min(done, 1.0), f"{staged.sentences:,} sentences read")
    return staged


def import_apart(
    store: Store,
    actor: Actor,
    campaign_id: int,
    files: Sequence[tuple[str, Path]],
    *,
    split: str = "pool",
    annotation: str = "suggestions",
    preannotate: bool = True,
    on_progress: Progress = lambda done, message: None,
    check: Callable[[Session, Staged], object] = lambda session, staged: None,
    **reading: Any,
) -> ImportOutcome:
    """Do what `exchange.import_files` does in bounded memory, with progress; raises as that does.

    `check` may refuse what was read, in the transaction that would write it.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        types, endpoint = domain_of(campaign).type_names, campaign.endpoint
        wants = preannotate and campaign.suggestions_on
    with tempfile.TemporaryDirectory(prefix="workbench-") as name:
        came = stage(
            files, types, Path(name), annotation=annotation,
            on_progress=lambda done, message: on_progress(_READING * done, message), **reading,
        )  # fmt: skip
        on_progress(_READING, f"{came.sentences:,} sentences read, being written")
        with store.write() as session:
            check(session, came)
            report = add(session, actor, campaign_id, came, split=split, annotation=annotation)
    on_progress(1.0, "done")
    new = report.added - report.gold - report.first
    note = exchange.suggest_new(store, actor, campaign_id, endpoint, new) if wants and new else ""
    return exchange.outcome_of(came.read_files, report, note)


def add(
    session: Session, actor: Actor, campaign_id: int, staged: Staged, *, split: str, annotation: str
) -> campaign_sentences.ImportReport:
    """Add staged sentences in a transaction, for somebody who may."""
    return campaign_sentences.add_within(
        session, actor, campaign_id, staged.rows(), split=split, annotation=exchange.stored_as(annotation)
    )


def start_import(
    store: Store,
    actor: Actor,
    campaign_id: int,
    files: Sequence[tuple[str, Upload]],
    **reading: Any,
) -> int:
    """Keep uploads in the home folder and queue the job that imports them; return its id."""
    require(actor, *KEEPERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
    with keeping(settings_of(store), files) as kept:
        return queue.start_job(store, actor, KIND, campaign_id, **kept, **reading)


@contextmanager
def keeping(settings: Settings, files: Sequence[tuple[str, Upload]]) -> Iterator[dict[str, Any]]:
    """Keep uploads in the home folder, unless the block fails; yield what names them in a job's payload.

    Raises BadInput for one that is too large.
    """
    for name, data in files:
        exchange.check_size(name, data.stat().st_size if isinstance(data, Path) else len(data))
    folder = uuid.uuid4().hex
    kept = settings.uploads / folder
    kept.mkdir(parents=True, mode=0o700)
    try:
        for number, (_, data) in enumerate(files):
            place = kept / str(number)
            shutil.copyfile(data, place) if isinstance(data, Path) else place.write_bytes(data)
        yield {"folder": folder, "names": [name for name, _ in files]}
    except BaseException:
        shutil.rmtree(kept)
        raise


def get_import(store: Store, actor: Actor, campaign_id: int, job_id: int) -> JobView:
    """Return a campaign's import that the worker does or did; raise NotFound for a job that is none."""
    require(actor, *KEEPERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
        job = job_rows.get(session, job_id)
        if job is None or job.kind != KIND or job.campaign_id != campaign_id:
            raise NotFound(f"There is no import {job_id} in this campaign.")
        return queue.view(job)


def kept_files(settings: Settings, folder: str, names: Sequence[str]) -> list[tuple[str, Path]]:
    """Return the uploads of a job; raise NotFound where they are gone."""
    kept = settings.uploads / folder
    if not kept.is_dir():
        raise NotFound("The uploaded files are no longer here; upload them again.")
    return [(name, kept / str(number)) for number, name in enumerate(names)]


def forget(settings: Settings, folder: str) -> None:
    """Delete the uploads of a job, which has ended."""
    shutil.rmtree(settings.uploads / folder, ignore_errors=True)


def empty_place(settings: Settings, folder: str) -> Path:
    """Return an empty folder beside a job's uploads for what it stages."""
    place = settings.uploads / folder / "staged"
    shutil.rmtree(place, ignore_errors=True)  # of a worker that died
    place.mkdir()
    return place


def sweep(store: Store) -> int:
    """Delete uploads that no queued or running job names, as after a failed job; return how many there were."""
    place = settings_of(store).uploads
    folders = [path for path in place.iterdir() if path.is_dir()] if place.is_dir() else []
    if not folders:
        return 0
    with store.read() as session:
        jobs = job_rows.recent(session, kinds=(KIND, NEW_CAMPAIGN), limit=10_000)
        named = {str(job.payload.get("folder")): job.state in queue.OPEN for job in jobs}
    # A folder that no job names may be of one that is about to be queued.
    old = time.time() - _ABANDONED_S
    gone = [path for path in folders if not named.get(path.name, path.stat().st_mtime > old)]
    for path in gone:
        shutil.rmtree(path, ignore_errors=True)
    return len(gone)


def _count(staged: Staged, piece: Parsed) -> None:
    staged.sentences += len(piece.sentences)
    staged.skipped += len(piece.problems)
    staged.problems += map(str, piece.problems[: MOST_PROBLEMS - len(staged.problems)])
    staged.losses.update(piece.losses)
    staged.formats[piece.format] = None
    staged.notes.update(dict.fromkeys(piece.notes))


def _write(piece: Parsed, number: int, wanted: bool, out: IO[str]) -> None:
    for record in piece.sentences:
        sentence = record.sentence
        spans = record.spans if wanted else None
        values = [
            number,
            sentence.id,
            sentence.text,
            [edge for token in sentence.tokens for edge in (token.start, token.end)],
            [[link.start, link.end, link.target] for link in sentence.links],
            dict(sentence.meta),
            sentence.document,
            sentence.offset,
            dict(notes_of(sentence, piece.format)),
            None if spans is None else [[span.start, span.end, span.type, span.entity] for span in spans],
        ]
        out.write(json.dumps(values, ensure_ascii=False) + "\n")


def _row(values: Sequence[Any], format: str, file: FileLayout) -> LabelledSentence | Sentence:
    _, id, text, edges, links, meta, document, offset, notes, spans = values
    tokens = tuple(map(Token, edges[::2], edges[1::2]))
    layout = SentenceLayout(format, notes, file)
    sentence = Sentence(id, text, tokens, tuple(Link(*link) for link in links), meta, document, offset, layout)
    return sentence if spans is None else LabelledSentence(sentence, tuple(Span(*span) for span in spans))


def in_words(outcome: ImportOutcome, skipped: int) -> str:
    """Say what an import brought, and what it left out, by kind and number."""
    done = asdict(outcome)
    parts = [f"{outcome.added:,} sentences imported"]
    kinds = {"gold": "with gold", "first": "wait for the check", "suggestions": "with suggestions from the files"}
    parts += [f"{done[key]:,} {words}" for key, words in kinds.items() if done[key]]
    parts += [f"{outcome.duplicates:,} were already there and were left out"] if outcome.duplicates else []
    parts += [f"{skipped:,} were skipped"] if skipped else []
    return "; ".join(parts) + "." + (f" {outcome.note}" if outcome.note else "")
