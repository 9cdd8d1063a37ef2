"""Pre-annotation: suggestions from links, gazetteers and trained models, written beside the sentences."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crossner_core.errors import UnknownType, WorkbenchError
from crossner_core.gazetteer.lookup import EmbeddedSource, Source, SparqlSource
from crossner_core.gazetteer.preannotate import Preannotator
from crossner_core.schema import Sentence, Span, Suggestion
from db import annotation_rows, suggestion_rows
from db.engine import Session, Store
from db.tables import Campaign
from workbench.accounts.access import KEEPERS, enter, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.campaigns.settings import domain_of
from workbench.data.values import sentence_of

_ALLOWED = (*KEEPERS, "system")
_CHUNK = 64


@dataclass(frozen=True, slots=True)
class PreannotationReport:
    """What a pre-annotation did; `problems` says in words which source did not answer.

    Sentences looked at while a source was out of reach have what the others knew, and are tried again next time.
    """

    sentences: int
    suggestions: int
    again: int
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.suggestions} suggestions in {self.sentences} sentences"
        if self.again:
            text += f"; {self.again} sentences will be tried again"
        return "; ".join([text, *self.problems])


class StoreCache:
    """Keeps the answers of endpoints in the store, each in a transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get_many(self, endpoint: str, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the values of the keys that are kept."""
        with self._store.read() as session:
            return suggestion_rows.cached(session, endpoint, keys)

    def put_many(self, endpoint: str, values: Mapping[str, dict[str, Any]]) -> None:
        """Keep the values, in place of older ones."""
        with self._store.write() as session:
            suggestion_rows.keep(session, endpoint, values)


def preannotate(
    store: Store,
    actor: Actor,
    campaign_id: int,
    *,
    limit: int | None = None,
    sources: Sequence[Source] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[float], None] = lambda share: None,
) -> PreannotationReport:
    """Suggest entities in the sentences that nobody has begun and that have not been pre-annotated yet.

    Asks the campaign's gazetteer first, then its endpoint, if it has them, and last the bundled sample; `sources` stand
    in for all. A source that is down, or a gazetteer that is missing or damaged, is reported and passed over. No
    transaction is open while sources are asked. `should_stop` is asked before each chunk: what was written stays;
    `on_progress` hears a share in [0, 1].
    """
    require(actor, *_ALLOWED)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *_ALLOWED)
        refuse_archived(campaign)
        rows = suggestion_rows.not_preannotated(session, campaign_id)[:limit]
        links = annotation_rows.links_of(session, [row.id for row in rows])
        wanted = [(row.id, sentence_of(row, links.get(row.id, ()))) for row in rows]
    problems: list[str] = []
    machine = Preannotator(
        sources if sources is not None else sources_of(store, campaign, problems.append),
        domain_of(campaign),
        on_problem=problems.append,
    )
    sentences = suggestions = again = 0
    whole = not problems
    for at in range(0, len(wanted), _CHUNK):
        if should_stop():
            break
        before = len(problems)
        chunk = wanted[at : at + _CHUNK]
        found = machine.suggest([sentence for _, sentence in chunk])
        complete = whole and len(problems) == before
        written = {id_: given for (id_, _), given in zip(chunk, found, strict=True)}
        done = _write(store, actor, campaign_id, written, complete=complete)
        sentences, again = sentences + len(done), again + (0 if complete else len(done))
        suggestions += sum(len(written[id_]) for id_ in done)
        on_progress((at + len(chunk)) / len(wanted))
    return PreannotationReport(sentences, suggestions, again, tuple(dict.fromkeys(problems)))


def sources_of(store: Store, campaign: Campaign, on_problem: Callable[[str], None]) -> list[Source]:
    """Return what a campaign's pre-annotation asks, in order; a gazetteer that cannot be opened is reported."""
    sources: list[Source] = []
    if campaign.gazetteer is not None:
        from workbench.suggestions.gazetteers import open_gazetteer

        try:
            sources.append(open_gazetteer(store, campaign.gazetteer))
        except WorkbenchError as error:
            on_problem(str(error))
    if campaign.endpoint is not None:
        sources.append(SparqlSource(campaign.endpoint, StoreCache(store), rng=random.Random(campaign.seed)))
    return [*sources, EmbeddedSource()]


def _write(
    store: Store, actor: Actor, campaign_id: int, found: Mapping[int, Sequence[Suggestion]], *, complete: bool
) -> set[int]:
    """Write the suggestions of sentences that nobody has begun meanwhile; return which."""
    with store.write() as session:
        enter(session, actor, campaign_id, *_ALLOWED)
        done = suggestion_rows.still_open(session, campaign_id, found)
        rows = [suggestion_values(id_, one) for id_ in sorted(done) for one in found[id_]]
        suggestion_rows.replace_suggestions(session, done, rows, model=False)
        if complete:
            suggestion_rows.mark_preannotated(session, done)
        return done


def suggestion_values(sentence_id: int, one: Suggestion, *, run_id: int | None = None) -> dict[str, Any]:
    """Return the columns of a suggestion."""
    return {
        "sentence_id": sentence_id,
        "start": one.start,
        "end": one.end,
        "type": one.type,
        "source": one.source,
        "score": one.score,
        "entity": one.entity,
        "run_id": run_id,
    }


def add_model_suggestions(
    store: Store,
    actor: Actor,
    campaign_id: int,
    *,
    run_id: int,
    suggestions: Mapping[int, Iterable[Suggestion | Span]],
) -> int:
    """Put a run's suggestions in place of older ones of models, by sentence id; return how many sentences got them.

    Sentences that somebody has begun to annotate keep what they were shown. A bare span gets the score 0.5. Raises
    UnknownType for a type that is not the campaign's.
    """
    require(actor, *_ALLOWED)
    with store.write() as session:
        _, campaign = enter(session, actor, campaign_id, *_ALLOWED)
        types = domain_of(campaign).type_names
        done = suggestion_rows.still_open(session, campaign_id, suggestions)
        rows = []
        for id_ in sorted(done):
            for one in suggestions[id_]:
                if one.type not in types:
                    raise UnknownType(f"Run {run_id} suggests {one.type!r}, which is none of {', '.join(types)}.")
                rows.append(suggestion_values(id_, _from_model(one), run_id=run_id))
        suggestion_rows.replace_suggestions(session, done, rows, model=True)
        return len(done)


def _from_model(one: Suggestion | Span) -> Suggestion:
    if not isinstance(one, Suggestion):
        return Suggestion(one.start, one.end, one.type, suggestion_rows.MODEL, 0.5)
    return one if one.source.startswith(suggestion_rows.MODEL) else replace(one, source=suggestion_rows.MODEL)


def unlabelled_pool(session: Session, campaign_id: int) -> list[tuple[int, Sentence]]:
    """Return the sentences that nobody has begun and that have no gold, with their ids, in the order of the queue."""
    rows = suggestion_rows.next_to_annotate(session, campaign_id)
    return [(row.id, sentence_of(row)) for row in rows]
