"""Corpora of the home folder: list them, describe one, and show sentences of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crossner_core.errors import WorkbenchError
from crossner_core.folders import find_folder, named_folders
from db.engine import Store
from workbench.accounts.actors import Actor, admit
from workbench.accounts.roles import OVERSEERS
from workbench.settings import Settings, settings_of

if TYPE_CHECKING:
    from crossner_core.gazetteer.ontology import ClassTree
    from crossner_core.wikipedia.corpus import Corpus, CorpusSentence

MOST = 500
"""Maximum number of sentences shown at once."""


@dataclass(frozen=True, slots=True)
class CorpusView:
    """A corpus of the home folder; one that cannot be read has a `problem` in words and no counts.

    `hash` names its whole content. `made_from` describes where it comes from. `domain` is the one its mentions
    are typed in, None if it was not pre-annotated with one.
    """

    name: str
    problem: str = ""
    hash: str = ""
    made_from: str = ""
    gazetteer: str | None = None
    domain: str | None = None
    pages: int = 0
    kept: int = 0
    redirects: int = 0
    categories: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    paragraphs: int = 0
    sentences: int = 0
    tokens: int = 0
    links: int = 0
    mentions: int = 0


def list_corpora(store: Store, actor: Actor) -> tuple[CorpusView, ...]:
    """Return the corpora of the home folder by name, damaged ones with the reason."""
    admit(store, actor, *OVERSEERS)
    return tuple(map(_view, named_folders(settings_of(store).corpora)))


def open_corpus(store: Store, actor: Actor, name: str) -> Corpus:
    """Open a corpus by name; raise NotFound naming those that exist, BadInput for a damaged one."""
    admit(store, actor, *OVERSEERS)
    return corpus_at(settings_of(store), name)


def corpus_at(settings: Settings, name: str) -> Corpus:
    """Open a corpus without an actor, for the worker; raises as `open_corpus` does."""
    from crossner_core.wikipedia.corpus import Corpus

    return Corpus.open(find_folder(settings.corpora, "corpus", name))


def search(
    store: Store, actor: Actor, name: str, text: str, *, limit: int = 20, offset: int = 0
) -> tuple[CorpusSentence, ...]:
    """Return sentences that contain a text, ignoring case, in the order of the corpus."""
    corpus = open_corpus(store, actor, name)
    return tuple(corpus.search(text.strip(), limit=min(limit, MOST), offset=max(offset, 0)))


def sample(store: Store, actor: Actor, name: str, *, count: int = 20, seed: int = 0) -> tuple[CorpusSentence, ...]:
    """Return sentences drawn at random, the same for the same corpus and seed, in the order they were drawn."""
    corpus = open_corpus(store, actor, name)
    many = min(count, MOST, len(corpus))
    drawn = np.random.default_rng(seed).choice(len(corpus), size=many, replace=False) if many > 0 else ()
    return tuple(corpus.rows(int(number) for number in drawn))


def class_tree(settings: Settings, corpus: Corpus) -> ClassTree:
    """Return the class tree of the gazetteer that annotated a corpus, or the bundled one if that is not here."""
    from crossner_core.wikipedia.levels import annotators_tree

    return annotators_tree(corpus, settings.gazetteers)


def _view(folder: Path) -> CorpusView:
    from crossner_core.wikipedia.corpus import Corpus

    try:
        return _summary(Corpus.open(folder))
    except WorkbenchError as error:
        return CorpusView(folder.name, problem=str(error))


def _summary(corpus: Corpus) -> CorpusView:
    manifest, counts = corpus.manifest, corpus.manifest.counts
    parent = manifest.derived_from
    return CorpusView(
        name=corpus.name,
        hash=manifest.hash,
        made_from=f"{manifest.source.file} ({manifest.source.dbname})"
        + (f", by way of {parent.name}" if parent else ""),
        gazetteer=manifest.gazetteer.name if manifest.gazetteer else None,
        domain=manifest.domain,
        pages=counts.pages,
        kept=counts.kept,
        redirects=counts.redirects,
        categories=counts.categories,
        skipped=dict(counts.skipped),
        paragraphs=counts.paragraphs,
        sentences=counts.sentences,
        tokens=counts.tokens,
        links=counts.links,
        mentions=counts.mentions,
    )
