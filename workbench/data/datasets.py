"""Labelled corpora beside campaigns: source domains, and reference train, dev and test sets."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotFound
from crossner_core.formats import file_bytes, make_document, read_files, write_files
from crossner_core.formats.base import Parsed
from crossner_core.schema import LabelledSentence, check_content
from crossner_core.training.recipe import effective, source_names
from db import dataset_rows
from db.engine import Session, Store
from db.training_tables import Dataset
from workbench.accounts import audit
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.campaigns.domains import find_domain
from workbench.data import frozen
from workbench.data.packing import packed

SPLITS = ("train", "dev", "test")
Parts = dict[str, tuple[LabelledSentence, ...]]
"""Sentences by split."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


@dataclass(frozen=True, slots=True)
class SplitView:
    """One split of a data set."""

    split: str
    sentences: int
    entities: int


@dataclass(frozen=True, slots=True)
class DatasetView:
    """A data set; `problems` are lines that an import with `skip_bad` left out."""

    id: int
    name: str
    domain_name: str | None
    types: tuple[str, ...]
    splits: tuple[SplitView, ...]
    created_at: dt.datetime
    runs: int = 0
    problems: tuple[str, ...] = ()

    def count(self, split: str) -> int:
        """Number of sentences of a split."""
        return next((part.sentences for part in self.splits if part.split == split), 0)


def import_dataset(
    store: Store,
    actor: Actor,
    *,
    name: str,
    splits: Mapping[str, Path | tuple[str, bytes]],
    domain: str | None = None,
    format: str | None = None,
    skip_bad: bool = False,
    options: Mapping[str, Any] | None = None,
) -> DatasetView:
    """Read a file for each split (a path, or a file name with its bytes) as one data set: all of it or nothing.

    With a domain only its types are allowed; without, the types are those found. Raises BadInput naming file,
    line and reason, Conflict for a name that is taken.
    """
    require(actor, *KEEPERS)
    _check_request(name, splits)
    with store.read() as session:
        fresh(session, actor, *KEEPERS)
        _check_free(session, name)
        known = find_domain(session, domain) if domain else None
    given = {**(options or {}), "skip_bad": skip_bad, **({"types": known.type_names} if known else {})}
    parsed = _read_all(splits, format, given)
    items = {split: [item for part in parts for item in _all_labelled(part)] for split, parts in parsed.items()}
    every = [part for parts in parsed.values() for part in parts]
    types = known.type_names if known else tuple(sorted({name for part in every for name in part.type_names}))
    if not types:
        raise BadInput(f"The files of {name!r} hold no entity at all; a data set needs gold.")
    with store.write() as session:
        current = fresh(session, actor, *KEEPERS)
        _check_free(session, name)
        dataset_rows.add(
            session,
            name=name,
            domain_name=domain,
            types=types,
            created_by=actor.id or None,
            splits=[_split_values(split, part, types) for split, part in items.items()],
        )
        problems = tuple(str(problem) for part in every for problem in part.problems)
        counts = {split: len(part) for split, part in items.items()}
        audit.record(session, current, "import_dataset", ("data set", name), sentences=counts)
        return _view(session, _row(session, name), problems=problems)


def list_datasets(store: Store, actor: Actor) -> tuple[DatasetView, ...]:
    """Return all data sets by name."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        fresh(session, actor, *OVERSEERS)
        return tuple(_view(session, row) for row in dataset_rows.listed(session))


def get_dataset(store: Store, actor: Actor, name: str) -> DatasetView:
    """Return a data set by name; raise NotFound naming those that exist."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        fresh(session, actor, *OVERSEERS)
        return _view(session, _row(session, name))


def export_dataset(store: Store, actor: Actor, name: str, split: str, *, format: str = "jsonl") -> bytes:
    """Return one split of a data set as a file of a format."""
    require(actor, *KEEPERS)
    with store.read() as session:
        fresh(session, actor, *KEEPERS)
        row = _row(session, name)
        content = dataset_rows.content(session, dataset_id=row.id, split=split)
    if content is None:
        has = ", ".join(part.split for part in row.splits)
        raise NotFound(f"The data set {name!r} has no split {split!r}; it has {has}.")
    items = [item for item, _ in frozen.read_lines(content)]
    made = packed(write_files([make_document(f"{name}-{split}", items, format)], format).files, format)
    details = {"split": split, "format": format, "sentences": len(items)}
    audit.record_alone(store, actor, "export_dataset", ("data set", name), **details)
    return made


def delete_dataset(store: Store, actor: Actor, name: str) -> None:
    """Delete a data set that no run was trained on and no recipe in use has as its source; raise Conflict otherwise."""
    require(actor, *KEEPERS)
    with store.write() as session:
        current = fresh(session, actor, *KEEPERS)
        row = _row(session, name)
        runs = dataset_rows.runs_of(session, row.id)
        if runs:
            raise Conflict(
                f"The data set {name!r} cannot be deleted: {runs} run{'s' * (runs != 1)} used it for training, and it "
                "stays so that their results can be traced."
            )
        recipes = map(effective, dataset_rows.recipes_of_source(session, name))
        if readers := sum(name in source_names(recipe.get("source", "")) for recipe in recipes):
            raise Conflict(
                f"The data set {name!r} cannot be deleted: it is the source corpus of runs, round settings or pending "
                f"simulated campaigns ({readers} in all)."
            )
        audit.record(session, current, "delete_dataset", ("data set", name))
        dataset_rows.delete(session, row.id)


def _check_request(name: str, splits: Mapping[str, Any]) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidConfig(f"Data set name {name!r}: use 1 to 60 of A-Z, a-z, 0-9, '.', '_' and '-', e.g. conll2003.")
    unknown = sorted(set(splits) - set(SPLITS))
    if unknown or not splits:
        raise InvalidConfig(f"Splits are {unknown or 'missing'}; give one to three of {', '.join(SPLITS)}.")


def _check_free(session: Session, name: str) -> None:
    if dataset_rows.find(session, name) is not None:
        raise Conflict(f"There is already a data set {name!r}; choose another name, or delete that one first.")


def _read_all(
    splits: Mapping[str, Path | tuple[str, bytes]], format: str | None, options: Mapping[str, Any]
) -> dict[str, list[Parsed]]:
    """Read all files before rejecting any, so that one message lists the problems of all."""
    parsed, problems = {}, []
    for split, source in splits.items():
        try:
            file = (source.name, file_bytes(source)) if isinstance(source, Path) else source
            parsed[split] = read_files([file], format, **options)
        except BadInput as error:
            problems.append(error)
    if problems:
        raise BadInput("\n".join(map(str, problems)), tuple(line for error in problems for line in error.problems))
    return parsed


def _all_labelled(parsed: Parsed) -> tuple[LabelledSentence, ...]:
    if len(parsed.labelled) < len(parsed.sentences):
        first = next(record.sentence.id for record in parsed.sentences if record.spans is None)
        raise BadInput(f"{parsed.name}: sentence {first} has no annotation; a data set needs gold for every sentence.")
    for record in parsed.sentences:
        check_content(record.sentence)
    return parsed.labelled


def _split_values(split: str, items: Sequence[LabelledSentence], types: tuple[str, ...]) -> dict[str, Any]:
    content = "".join(frozen.to_line(item) + "\n" for item in items)
    return {
        "split": split,
        "content": content,
        "content_hash": frozen.content_hash(types, ((split, item) for item in items)),
        "sentences": len(items),
        "entities": frozen.entities(items),
    }


def _row(session: Session, name: str) -> Dataset:
    row = dataset_rows.find(session, name)
    if row is None:
        known = ", ".join(row.name for row in dataset_rows.listed(session)) or "none yet"
        raise NotFound(f"There is no data set {name!r}; there are: {known}.")
    return row


def _view(session: Session, row: Dataset, *, problems: tuple[str, ...] = ()) -> DatasetView:
    order = {split: index for index, split in enumerate(SPLITS)}
    splits = sorted(row.splits, key=lambda part: order[part.split])
    return DatasetView(
        id=row.id,
        name=row.name,
        domain_name=row.domain_name,
        types=tuple(row.types),
        splits=tuple(SplitView(part.split, part.sentences, part.entities) for part in splits),
        created_at=row.created_at,
        runs=dataset_rows.runs_of(session, row.id),
        problems=problems,
    )


def dataset_parts(session: Session, dataset: Dataset) -> Parts:
    """Return the sentences of a data set by split; a split it lacks is empty."""
    parts: Parts = {}
    for split in ("train", "dev", "test"):
        content = dataset_rows.content(session, dataset_id=dataset.id, split=split) or ""
        parts[split] = tuple(item for item, _ in frozen.read_lines(content))
    return parts


def dataset_hash(dataset: Dataset) -> str:
    """Return the hash that names a data set's content."""
    return frozen.joined_hash(f"{part.split}:{part.content_hash}" for part in dataset.splits)
