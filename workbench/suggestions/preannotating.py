"""Pre-annotation: suggestions from links, gazetteers and trained models, written beside the sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from crossner_core.domains import Domain
from crossner_core.errors import UnknownType
from crossner_core.folders import find_folder
from crossner_core.gazetteer.lookup import Source
from crossner_core.gazetteer.preannotate import Preannotator
from crossner_core.schema import Sentence, Span, Suggestion
from crossner_core.suggest.base import Resources, Suggester, is_trained, source
from crossner_core.suggest.base import sources as registered
from crossner_core.suggest.gazetteer import GAZETTEER
from crossner_core.suggest.model import MODEL
from db import annotation_rows, suggestion_rows
from db.engine import Session, Store
from db.tables import Campaign
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of
from workbench.campaigns.settings import CampaignSettings
from workbench.data.values import sentence_of, suggestion_values
from workbench.settings import settings_of

_ALLOWED = (*KEEPERS, "system")
_CHUNK = 64


@dataclass(frozen=True, slots=True)
class PreannotationReport:
    """Outcome of a pre-annotation; `problems` states which sources did not answer.

    Sentences processed while a source was unreachable have the suggestions of the others, and are retried next time.
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


@dataclass(frozen=True, slots=True)
class Proposed:
    """The suggestions of each sentence, in order; `problems` states which sources did not answer."""

    suggestions: tuple[tuple[Suggestion, ...], ...]
    problems: tuple[str, ...] = ()


class StoreCache:
    """Keeps the answers of endpoints in the store, each in a transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get_many(self, endpoint: str, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the values of the keys that are kept."""
        with self._store.read() as session:
            return suggestion_rows.cached(session, endpoint, keys)

    def put_many(self, endpoint: str, values: Mapping[str, dict[str, Any]]) -> None:
        """Cache the values, replacing older ones."""
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

    Every registered source that can be opened is queried, gazetteers as the campaign names them; `sources` replace all
    of them. A source that is down, or a gazetteer that is missing or damaged, is reported and skipped. No transaction
    is open while sources are queried. `should_stop` is called before each chunk: what was written stays; `on_progress`
    gets a share in [0, 1].
    """
    require(actor, *_ALLOWED)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *_ALLOWED)
        refuse_archived(campaign)
        rows = suggestion_rows.not_preannotated(session, campaign_id)[:limit]
        links = annotation_rows.links_of(session, [row.id for row in rows])
        wanted = [(row.id, sentence_of(row, links.get(row.id, ()))) for row in rows]
    problems: list[str] = []
    suggesters = _suggesters(store, domain_of(campaign), campaign, problems.append, sources)
    sentences = suggestions = again = 0
    whole = not problems
    for start in range(0, len(wanted), _CHUNK):
        if should_stop():
            break
        before = len(problems)
        chunk = wanted[start : start + _CHUNK]
        texts = [sentence for _, sentence in chunk]
        suggested = {
            id: dict(zip((row_id for row_id, _ in chunk), suggest(texts), strict=True))
            for id, suggest in suggesters.items()
        }
        complete = whole and len(problems) == before
        done, count = _write(store, actor, campaign_id, [row_id for row_id, _ in chunk], suggested, complete=complete)
        sentences, again = sentences + done, again + (0 if complete else done)
        suggestions += count
        on_progress((start + len(chunk)) / len(wanted))
    if sentences:
        counts = {"sentences": sentences, "suggestions": suggestions}
        audit.record_alone(store, actor, "preannotate", ("campaign", campaign.name), campaign_id, **counts)
    return PreannotationReport(sentences, suggestions, again, tuple(dict.fromkeys(problems)))


def propose(
    store: Store, actor: Actor, domain: Domain, sentences: Sequence[Sentence], *, gazetteer: str | None = None
) -> Proposed:
    """Suggest in sentences that are in no campaign yet, as `preannotate` would by the local sources; write nothing."""
    require(actor, *KEEPERS)
    with store.read() as session:
        fresh(session, actor, *KEEPERS)
    problems: list[str] = []
    rules = CampaignSettings(name="none yet", gazetteer=gazetteer)
    suggesters = _suggesters(store, domain, rules, problems.append, None)
    suggested = [suggest(sentences) for suggest in suggesters.values()]
    merged = tuple(tuple(chain.from_iterable(parts)) for parts in zip(*suggested, strict=True))
    return Proposed(merged, tuple(dict.fromkeys(problems)))


def _suggesters(
    store: Store,
    domain: Domain,
    rules: Campaign | CampaignSettings,
    on_problem: Callable[[str], None],
    stand_ins: Sequence[Source] | None,
) -> dict[str, Suggester]:
    """Open the sources that suggest in a campaign's new sentences, by id; `stand_ins` replace all of them."""
    if stand_ins is not None:
        return {GAZETTEER.id: Preannotator(stand_ins, domain, on_problem=on_problem).suggest}
    resources = resources_of(store, domain, rules.seed, on_problem)
    return {
        source_kind.id: source_kind.open(source_kind.settings_from(rules), resources)
        for source_kind in registered()
        if source_kind.open is not None
    }


def resources_of(store: Store, domain: Domain, seed: int, on_problem: Callable[[str], None]) -> Resources:
    """Return what sources of suggestions are opened with: the folders of the home, and the answers kept so far."""
    settings = settings_of(store)
    folders = {"gazetteer": settings.gazetteers, "corpus": settings.corpora}
    return Resources(
        domain=domain,
        seed=seed,
        folder_of=lambda kind, name: find_folder(folders[kind], kind, name),
        cache=StoreCache(store),
        on_problem=on_problem,
    )


def _write(
    store: Store,
    actor: Actor,
    campaign_id: int,
    sentence_ids: Sequence[int],
    suggested: Mapping[str, Mapping[int, Sequence[Suggestion]]],
    *,
    complete: bool,
) -> tuple[int, int]:
    """Write each source's suggestions for the sentences that nobody has begun meanwhile; count both."""
    with store.write() as session:
        enter(session, actor, campaign_id, *_ALLOWED)
        done = suggestion_rows.still_open(session, campaign_id, sentence_ids)
        rows = {id: _rows(done, by_sentence) for id, by_sentence in suggested.items()}
        for id, values in rows.items():
            suggestion_rows.replace_suggestions(session, done, values, kinds=source(id).kinds)
        if complete:
            suggestion_rows.mark_preannotated(session, done)
        return len(done), sum(map(len, rows.values()))


def _rows(done: set[int], suggested: Mapping[int, Sequence[Suggestion]]) -> list[dict[str, Any]]:
    return [suggestion_values(id_, suggestion) for id_ in sorted(done) for suggestion in suggested[id_]]


def add_model_suggestions(
    store: Store,
    actor: Actor,
    campaign_id: int,
    *,
    run_id: int,
    suggestions: Mapping[int, Iterable[Suggestion | Span]],
) -> int:
    """Replace older model suggestions with those of a run, by sentence id; return how many sentences got them.

    Sentences that somebody has begun to annotate keep what they were shown. A bare span gets the score 0.5. Raises
    UnknownType for a type that is not the campaign's.
    """
    require(actor, *_ALLOWED)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *_ALLOWED)
        types = domain_of(campaign).type_names
        done = suggestion_rows.still_open(session, campaign_id, suggestions)
        rows = []
        for id_ in sorted(done):
            for suggestion in suggestions[id_]:
                if suggestion.type not in types:
                    raise UnknownType(
                        f"Run {run_id} suggests {suggestion.type!r}, which is not one of {', '.join(types)}."
                    )
                rows.append(suggestion_values(id_, _from_model(suggestion), run_id=run_id))
        suggestion_rows.replace_suggestions(session, done, rows, kinds=MODEL.kinds)
        counts = {"sentences": len(done), "suggestions": len(rows)}
        audit.record(session, current, "add_model_suggestions", ("run", run_id), campaign_id, **counts)
        return len(done)


def _from_model(suggestion: Suggestion | Span) -> Suggestion:
    if not isinstance(suggestion, Suggestion):
        return Suggestion(suggestion.start, suggestion.end, suggestion.type, MODEL.id, 0.5)
    return suggestion if is_trained(suggestion.source) else replace(suggestion, source=MODEL.id)


def unlabelled_pool(session: Session, campaign_id: int, limit: int | None = None) -> list[tuple[int, Sentence]]:
    """Return the sentences that nobody has begun and that have no gold, with their ids, in the order of the queue."""
    rows = suggestion_rows.next_to_annotate(session, campaign_id)[:limit]
    return [(row.id, sentence_of(row)) for row in rows]
