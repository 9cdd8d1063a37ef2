"""Ask an outside model about a campaign's open sentences: for a look, or to suggest in them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from crossner_core.errors import WorkbenchError
from crossner_core.outside.asking import Asker, Outcome, Spend
from crossner_core.outside.listing import find_model
from crossner_core.schema import Sentence
from db import suggestion_rows
from db.engine import Session, Store
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of
from workbench.data.values import suggestion_values
from workbench.jobs import queue
from workbench.suggestions.outside import examples_for, key_of, models_of, permitted, source_named
from workbench.suggestions.preannotating import StoreCache, unlabelled_pool
from workbench.suggestions.previewing import SENTENCES, PreviewedSentence
from workbench.suggestions.proposing import relearn

JOB = "ask_outside"
PREVIEW_SECONDS = 90.0
_ALLOWED = (*KEEPERS, "system")
_CHUNK, _SECONDS = 32, 2.0


@dataclass(frozen=True, slots=True)
class Report:
    """What came of asking: sentences with a usable answer, how many of them from answers kept, and suggestions.

    `unusable` says why for each sentence without one; `left` counts those that were not asked about.
    """

    sentences: int = 0
    kept: int = 0
    suggestions: int = 0
    unusable: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    left: int = 0
    budget_spent: bool = False

    def __str__(self) -> str:
        text = f"{self.suggestions} suggestions in {self.sentences} sentences, {self.kept} of them from answers kept"
        if self.dropped:
            text += "; dropped: " + ", ".join(f"{count} × {why}" for why, count in sorted(self.dropped.items()))
        if self.unusable:
            text += f"; {len(self.unusable)} without a usable answer, such as: {self.unusable[0]}"
        if self.budget_spent:
            text += f"; the budget is spent, {self.left} sentences are left"
        return text


@dataclass(frozen=True, slots=True)
class OutsidePreview:
    """The next open sentences with what an outside model suggests in them, and what else came of asking."""

    sentences: tuple[PreviewedSentence, ...]
    open: int
    report: Report


class StoreBudget:
    """A campaign's budget at a model, kept in the store, so that it holds for every process."""

    def __init__(self, store: Store, allowance_id: int) -> None:
        self._store, self._id = store, allowance_id

    def reserve(self, most: Spend) -> bool:
        """Set aside what a request takes at most; return whether that was left."""
        with self._store.write() as session:
            return suggestion_rows.reserve(session, self._id, **asdict(most))

    def settle(self, reserved: Spend, spent: Spend) -> None:
        """Replace what was set aside by what was spent."""
        beyond = {key: value - getattr(reserved, key) for key, value in asdict(spent).items()}
        with self._store.write() as session:
            suggestion_rows.settle(session, self._id, **beyond)


def preview(store: Store, actor: Actor, campaign_id: int, name: str) -> OutsidePreview:
    """Ask a model about the first open sentences, for the person who looks; writes no suggestion.

    The answers are kept and count in the budget. Raises Conflict unless the campaign may ask the model.
    """
    require(actor, *KEEPERS)
    begun = _begin(store, actor, campaign_id, name)
    until = time.monotonic() + PREVIEW_SECONDS
    some = begun.pool[:SENTENCES]
    outcomes: dict[int, Outcome] = {}
    sentences = [sentence for _, sentence in some]
    problem = ""
    try:
        for outcome in begun.asker.outcomes(sentences, lambda: time.monotonic() > until):
            outcomes[outcome.index] = outcome
    except WorkbenchError as error:
        if not any(outcome.suggestions is not None for outcome in outcomes.values()):
            raise
        problem = str(error)
    finally:
        _count(store, actor, begun, name, outcomes.values())
    report = _report(outcomes.values(), len(some), begun.asker.budget_spent, problem)
    shown = tuple(
        PreviewedSentence(sentence, outcomes[index].suggestions or ())
        for index, sentence in enumerate(sentences)
        if index in outcomes and outcomes[index].suggestions is not None
    )
    return OutsidePreview(shown, len(begun.pool), report)


def start(store: Store, actor: Actor, campaign_id: int, name: str) -> int:
    """Queue asking a model about all open sentences; return the job's id. Raises Conflict unless it may be asked."""
    require(actor, *KEEPERS)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        refuse_archived(campaign)
        permitted(session, campaign, find_model(models_of(store), name))
        job_id, _ = queue.start(session, JOB, {"name": name}, by=actor, campaign_id=campaign_id)
        audit.record(session, current, "start_outside_model", ("outside model", name), campaign_id, job=job_id)
        return job_id


def ask(
    store: Store,
    actor: Actor,
    campaign_id: int,
    name: str,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[int, int], None] = lambda done, all_: None,
) -> Report:
    """Ask a model about all open sentences, and write what it suggests where nobody has begun meanwhile.

    Answers that are kept cost nothing, so that a job that was stopped resumes. Raises EndpointUnavailable where the
    model cannot be asked further; what came until then is written.
    """
    require(actor, *_ALLOWED)
    begun = _begin(store, actor, campaign_id, name)
    sentences = [sentence for _, sentence in begun.pool]
    done: list[Outcome] = []
    waiting: list[Outcome] = []
    last = time.monotonic()

    def write() -> None:
        nonlocal last
        _write(store, actor, begun, waiting)
        done.extend(waiting)
        waiting.clear()
        last = time.monotonic()
        on_progress(len(done), len(sentences))

    try:
        for outcome in begun.asker.outcomes(sentences, should_stop):
            waiting.append(outcome)
            if len(waiting) >= _CHUNK or time.monotonic() - last > _SECONDS:
                write()
    finally:
        write()
        with store.write() as session:
            relearn(session, campaign_id)
            about = ("outside model", name)
            audit.record(session, actor, "ask_outside_model", about, campaign_id, sentences=len(done))
    return _report(done, len(sentences), begun.asker.budget_spent)


@dataclass(frozen=True)
class _Begun:
    """What is asked about, and who asks."""

    campaign_id: int
    allowance_id: int
    source: str
    pool: Sequence[tuple[int, Sentence]]
    asker: Asker


def _begin(store: Store, actor: Actor, campaign_id: int, name: str) -> _Begun:
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *_ALLOWED)
        refuse_archived(campaign)
        model = find_model(models_of(store), name)
        row, source = permitted(session, campaign, model), source_named(model)
        pool, domain = unlabelled_pool(session, campaign_id), domain_of(campaign)
        asker = Asker(
            model, domain, source, key=key_of(model), cache=StoreCache(store),
            budget=StoreBudget(store, row.id), rng=random.Random(campaign.seed),
            examples=examples_for(session, campaign_id, model, domain),
        )  # fmt: skip
    return _Begun(campaign_id, row.id, source, pool, asker)


def _write(store: Store, actor: Actor, begun: _Begun, outcomes: Iterable[Outcome]) -> None:
    """Replace the suggestions of the sentences that were answered, where nobody has begun; count the new answers."""
    usable = {begun.pool[each.index][0]: each.suggestions for each in outcomes if each.suggestions is not None}
    with store.write() as session:
        enter(session, actor, begun.campaign_id, *_ALLOWED)
        still = suggestion_rows.within_reach(session, begun.campaign_id, usable.keys())
        rows = [suggestion_values(id_, each) for id_ in sorted(still) for each in usable[id_]]
        suggestion_rows.replace_suggestions(session, still, rows, kinds=(begun.source,))
        _add_counts(session, begun.allowance_id, outcomes)


def _count(store: Store, actor: Actor, begun: _Begun, name: str, outcomes: Collection[Outcome]) -> None:
    with store.write() as session:
        _add_counts(session, begun.allowance_id, outcomes)
        about = ("outside model", name)
        audit.record(session, actor, "preview_outside_model", about, begun.campaign_id, sentences=len(outcomes))


def _add_counts(session: Session, allowance_id: int, outcomes: Iterable[Outcome]) -> None:
    new = [outcome for outcome in outcomes if not outcome.from_cache]
    answered = sum(outcome.suggestions is not None for outcome in new)
    dropped = sum((outcome.dropped for outcome in new), Counter[str]())
    unusable = len(new) - answered
    suggestion_rows.count_answers(session, allowance_id, answered=answered, unusable=unusable, dropped=dropped)


def _report(outcomes: Iterable[Outcome], asked: int, budget_spent: bool, problem: str = "") -> Report:
    done = list(outcomes)
    usable = [outcome for outcome in done if outcome.suggestions is not None]
    why = [outcome.why for outcome in done if outcome.suggestions is None]
    return Report(
        len(usable),
        sum(outcome.from_cache for outcome in usable),
        sum(len(outcome.suggestions or ()) for outcome in usable),
        tuple([*why, problem] if problem else why),
        dict(sum((outcome.dropped for outcome in done), Counter[str]())),
        asked - len(done),
        budget_spent,
    )
