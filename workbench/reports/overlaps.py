"""How alike the words of corpora, data sets and campaigns are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from crossner_core.errors import BadInput, NotFound
from db import dataset_rows, layer_rows
from db.engine import Store
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import OVERSEERS
from workbench.campaigns import campaigns
from workbench.data import corpora, datasets, frozen

if TYPE_CHECKING:
    from crossner_core.vocabulary import Vocabulary

KINDS = ("corpus", "data set", "campaign")
MOST = 100_000
"""Maximum number of sentences read from one source; its first ones."""


@dataclass(frozen=True, slots=True)
class TextSource:
    """Something with sentences: `kind` is one of `KINDS`; `state` changes when its sentences do."""

    kind: str
    name: str
    sentences: int
    state: str

    @property
    def title(self) -> str:
        """How a figure calls it."""
        return f"{self.name} ({self.kind})"


def text_sources(store: Store, actor: Actor) -> tuple[TextSource, ...]:
    """Return everything with sentences that the actor may see: corpora, data sets, campaigns."""
    require(actor, *OVERSEERS)
    sources = [
        TextSource("corpus", corpus.name, corpus.sentences, corpus.hash)
        for corpus in corpora.list_corpora(store, actor)
        if not corpus.problem and corpus.sentences
    ]
    for data in datasets.list_datasets(store, actor):
        many = sum(part.sentences for part in data.splits)
        sources.append(TextSource("data set", data.name, many, data.created_at.isoformat()))
    for campaign in campaigns.list_campaigns(store, actor):
        if campaign.sentences:
            state = f"{campaign.id}:{campaign.sentences}"
            sources.append(TextSource("campaign", campaign.name, campaign.sentences, state))
    return tuple(sources)


def vocabulary_of(store: Store, actor: Actor, source: TextSource, *, most: int = MOST) -> Vocabulary:
    """Return the most frequent words of a source's first sentences; raise BadInput where it holds no words."""
    from crossner_core.vocabulary import vocabulary

    require(actor, *OVERSEERS)
    if source.kind == "corpus":
        return vocabulary(source.title, corpora.open_corpus(store, actor, source.name).words(most))
    if source.kind == "data set":
        words = _dataset_words(store, actor, source.name)
    elif source.kind == "campaign":
        words = _campaign_words(store, actor, source.name, most)
    else:
        raise BadInput(f"There is no kind of source {source.kind!r}; there are {', '.join(KINDS)}.")
    return vocabulary(source.title, islice(words, most))


def _dataset_words(store: Store, actor: Actor, name: str) -> Iterable[Sequence[str]]:
    with store.read() as session:
        fresh(session, actor, *OVERSEERS)
        row = dataset_rows.find(session, name)
        if row is None:
            raise NotFound(f"There is no data set {name!r}; it may have been deleted.")
        contents = [dataset_rows.content(session, dataset_id=row.id, split=part.split) or "" for part in row.splits]
    return (words for content in contents for words in frozen.each_words(content))


def _campaign_words(store: Store, actor: Actor, name: str, most: int) -> Iterable[Sequence[str]]:
    known = {view.name: view.id for view in campaigns.list_campaigns(store, actor)}
    if name not in known:
        raise NotFound(f"There is no campaign {name!r}; it may have been deleted or archived.")
    with store.read() as session:
        enter(session, actor, known[name], *OVERSEERS)
        rows = layer_rows.texts(session, known[name], limit=most)
    return ([text[start:end] for start, end in tokens] for text, tokens in rows)
