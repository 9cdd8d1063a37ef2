"""The words of a span proposed in other sentences: how often they occur, and suggestions that follow the span."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from crossner_core.errors import InvalidSpan, NotFound
from crossner_core.schema import Sentence, Suggestion, fields_from_kept
from crossner_core.suggest.identical import CONFIDENCE, IDENTICAL, places, places_like
from db import identical_rows, suggestion_rows, task_rows
from db.engine import Session, Store
from db.identical_rows import Place
from db.tables import Campaign, SentenceRow
from db.types import now
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import stage_roles
from workbench.data.values import sentence_of, suggestion_values, text_of

_STAGE = "annotate"


@dataclass(frozen=True, slots=True)
class Occurrences:
    """How often the words `[start, end)` of a task's sentence stand, undecided, in open sentences.

    `document` counts other sentences of the same document, `campaign` all the rest.
    """

    task: int
    start: int
    end: int
    document: int
    campaign: int


def occurrences(store: Store, actor: Actor, campaign_id: int, task_id: int, *, start: int, end: int) -> Occurrences:
    """Count where the words of a span could be proposed; raise NotFound or InvalidSpan where there are none.

    Nothing is counted that would not be shown: controls, or a campaign without suggestions.
    """
    require(actor, *stage_roles(_STAGE))
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *stage_roles(_STAGE))
        row = task_rows.sentence_at(session, task_id, campaign_id=campaign.id, stage=_STAGE)
        if row is None:
            raise NotFound(f"There is no task {task_id} for annotator 1 in the campaign {campaign.name!r}.")
        sentence = sentence_of(row)
        if not 0 <= start < end <= len(sentence.tokens):
            raise InvalidSpan(f"The span [{start}, {end}) lies outside the {len(sentence.tokens)} tokens.")
        text = text_of(fields_from_kept(row.meta))
        free = _proposable(session, current, campaign, row, (start, end))
        beside = [text is not None and text_of(fields_from_kept(other.meta)) == text for other, _ in free]
    return Occurrences(task_id, start, end, document=sum(beside), campaign=len(beside) - sum(beside))


def follow(
    session: Session,
    actor: Actor,
    campaign: Campaign,
    row: SentenceRow,
    before: Collection[tuple[str, str]],
    after: Mapping[tuple[str, str], tuple[int, int]],
) -> None:
    """Propose the words and types in `after`, each with a span of theirs; withdraw those that only `before` has.

    For a caller that has authorised the actor and written their work on the sentence of `row`. Only sentences that
    wait for annotator 1, are no controls and are in nobody else's hands are touched, and there only places that
    nobody has decided: what was taken or refused stays as it is.
    """
    for surface, kind in sorted(set(before) - set(after)):
        if not identical_rows.is_proposed(session, campaign.id, surface=surface, type=kind):
            free = _free_places(session, actor, campaign, row, surface, partial(places, surface=surface))
            identical_rows.remove(session, IDENTICAL.id, kind, ((other.id, *place) for other, place in free))
    for key in sorted(set(after) - set(before)):
        made = [
            suggestion_values(other.id, Suggestion(*place, key[1], IDENTICAL.id, CONFIDENCE))
            for other, place in _proposable(session, actor, campaign, row, after[key])
        ]
        suggestion_rows.insert(session, made)


def _proposable(
    session: Session, actor: Actor, campaign: Campaign, row: SentenceRow, span: Place
) -> Iterable[tuple[SentenceRow, Place]]:
    """Return the free places that look like a span of a sentence; none where suggestions are not shown."""
    sentence = sentence_of(row)
    like = partial(places_like, sentence, span)
    return _free_places(session, actor, campaign, row, sentence.surface(*span), like) if campaign.suggestions_on else ()


def _free_places(
    session: Session,
    actor: Actor,
    campaign: Campaign,
    row: SentenceRow,
    surface: str,
    places_in: Callable[[Sentence], Iterable[Place]],
) -> Iterator[tuple[SentenceRow, Place]]:
    """Yield the undecided places of the words in open sentences other than this one."""
    rows = identical_rows.open_sentences_with(
        session, campaign.id, surface, user_id=actor.id, time=now(), apart_from=row.id
    )
    decided = identical_rows.decided_places(session, [other.id for other in rows])
    for other in rows:
        for start, end in places_in(sentence_of(other)):
            if not any(start < until and begin < end for begin, until in decided.get(other.id, ())):
                yield other, (start, end)
