"""Make a campaign with its domain, people, rules and sentences at once, and look beforehand at what it would suggest.

Nothing is written before all of it is known: a campaign that stopped halfway would hand out its sentences already.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from crossner_core.domains import Domain
from crossner_core.errors import BadInput
from crossner_core.schema import LabelledSentence, Sentence, Suggestion
from crossner_core.suggest.imported import IMPORTED
from db.engine import Session, Store
from db.tables import Campaign
from workbench.accounts import audit
from workbench.accounts.actors import Actor, admit, fresh, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import campaigns, domains
from workbench.campaigns import sentences as campaign_sentences
from workbench.data import exchange, sampling, staging
from workbench.data.corpora import open_corpus
from workbench.data.exchange import Files, ImportOutcome
from workbench.data.sampling import SamplingPlan
from workbench.data.staging import Staged
from workbench.jobs import queue
from workbench.settings import settings_of
from workbench.suggestions.preannotating import propose

LOOKED_AT = 10
"""Number of sentences whose suggestions are shown beforehand."""
_IMPORTED = next(iter(IMPORTED.kinds))
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class MadeCampaign:
    """A new campaign, with the outcome of its import; None where it has no sentences yet."""

    id: int
    name: str
    outcome: ImportOutcome | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign is to be: its domain `kinds`, which is the new one of `draft` if that is not empty."""

    name: str
    kinds: Domain
    draft: str
    member_ids: tuple[int, ...]
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        store: Store,
        *,
        name: str,
        domain: str,
        draft: str,
        member_ids: Iterable[int],
        settings: Mapping[str, Any],
    ) -> Self:
        """Look the domain up, or check the draft of a new one."""
        return cls(name, _domain(store, domain, draft), draft, tuple(member_ids), settings)


@dataclass(frozen=True, slots=True)
class Written:
    """A campaign that was written; `to_suggest` of its sentences are to be pre-annotated."""

    id: int
    name: str
    outcome: ImportOutcome | None = None
    endpoint: str | None = None
    to_suggest: int = 0


@dataclass(frozen=True, slots=True)
class Looked:
    """A sentence with the suggestions it would get."""

    sentence: Sentence
    suggestions: tuple[Suggestion, ...]


@dataclass(frozen=True, slots=True)
class FirstLook:
    """Some of the sentences, evenly from all of them, with their suggestions; `problems` of sources, in words."""

    sentences: int
    looked: tuple[Looked, ...]
    problems: tuple[str, ...] = ()

    @property
    def suggested(self) -> int:
        """How many of these sentences would get a suggestion."""
        return sum(bool(item.suggestions) for item in self.looked)

    @property
    def few(self) -> bool:
        """Whether fewer than half of them would get any, so that annotators mark most spans by themselves."""
        return 2 * self.suggested < len(self.looked)


def make_campaign(
    store: Store,
    actor: Actor,
    *,
    name: str,
    domain: str = "",
    draft: str = "",
    member_ids: Iterable[int] = (),
    settings: Mapping[str, Any] | None = None,
    files: Files = (),
    reading: Mapping[str, Any] | None = None,
    corpus: str = "",
    plan: Mapping[str, Any] | None = None,
) -> MadeCampaign:
    """Make a campaign with all that belongs to it in one transaction: all of it, or nothing.

    `domain` names one that is here; `draft` is the TOML of a new one. Sentences come from `files`, read as `reading`
    states (the options of `import_files`), or are drawn from a `corpus` by a `SamplingPlan`. They are pre-annotated
    afterwards, as after an import. For researchers and admins.
    """
    admit(store, actor, *KEEPERS)
    chosen = Plan.of(store, name=name, domain=domain, draft=draft, member_ids=member_ids, settings=settings or {})
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        source: FromFiles | FromCorpus | None
        if files:
            source = from_files(_with_paths(files, Path(folder)), chosen.kinds, reading, Path(folder))
        else:
            source = _from_corpus(store, actor, corpus, plan, chosen.kinds)
        with store.write() as session:
            written = write(session, actor, chosen, source)
    outcome = written.outcome
    if outcome is not None and written.to_suggest:
        note = exchange.suggest_new(store, actor, written.id, written.endpoint, written.to_suggest)
        outcome = replace(outcome, note=f"{note} {outcome.note}".strip())
    return MadeCampaign(written.id, written.name, outcome)


def start_campaign(
    store: Store,
    actor: Actor,
    *,
    name: str,
    files: Sequence[tuple[str, staging.Upload]],
    domain: str = "",
    draft: str = "",
    member_ids: Iterable[int] = (),
    settings: Mapping[str, Any] | None = None,
    reading: Mapping[str, Any] | None = None,
) -> int:
    """Have the worker do what `make_campaign` does, for files that take long to read; return the job's id.

    Raises at once for a name that is taken, a domain, or settings that do not fit. For researchers and admins.
    """
    require(actor, *KEEPERS)
    plan = Plan.of(store, name=name, domain=domain, draft=draft, member_ids=member_ids, settings=settings or {})
    with store.read() as session:
        campaigns.check_new(session, fresh(session, actor, *KEEPERS), name=name, **plan.settings)
    asked: dict[str, Any] = {"name": name, "domain": domain, "draft": draft, "member_ids": list(plan.member_ids)}
    asked |= {"settings": dict(plan.settings), "reading": dict(reading or {})}
    with staging.keeping(settings_of(store), files) as kept:
        return queue.start_job(store, actor, staging.NEW_CAMPAIGN, **kept, **asked)


def write(session: Session, actor: Actor, plan: Plan, source: FromFiles | FromCorpus | None) -> Written:
    """Write a campaign with its domain, people, rules and sentences in a transaction, for somebody who may."""
    current = fresh(session, actor, *KEEPERS)
    if plan.draft:
        domains.add_domain(session, current, plan.draft)
    campaign = campaigns.add_campaign(
        session, current, name=plan.name, domain=plan.kinds, member_ids=plan.member_ids, **plan.settings
    )
    about, new_domain = ("campaign", campaign.name), bool(plan.draft)
    audit.record(session, current, "create_campaign", about, campaign.id, domain=plan.kinds.name, new_domain=new_domain)
    if source is None:
        return Written(campaign.id, campaign.name)
    outcome, new = source.add(session, current, campaign)
    audit.record(session, current, "add_sentences", about, campaign.id, added=outcome.added, corpus=source.name)
    to_suggest = new if campaign.suggestions_on else 0
    return Written(campaign.id, campaign.name, outcome, campaign.endpoint, to_suggest)


def first_look(
    store: Store,
    actor: Actor,
    *,
    domain: str = "",
    draft: str = "",
    gazetteer: str | None = None,
    files: Files = (),
    reading: Mapping[str, Any] | None = None,
    corpus: str = "",
    plan: Mapping[str, Any] | None = None,
) -> FirstLook:
    """Return what `make_campaign` would suggest in a few of the sentences, without an endpoint; nothing is written."""
    admit(store, actor, *KEEPERS)
    kinds = _domain(store, domain, draft)
    if files:
        with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
            source = from_files(_with_paths(files, Path(folder)), kinds, reading, Path(folder))
            return _look_at_files(store, actor, source, kinds, gazetteer)
    return _look_at_corpus(store, actor, corpus, plan, kinds, gazetteer)


@dataclass(frozen=True, slots=True)
class FromFiles:
    """Sentences that were read into a folder, and what becomes of them."""

    staged: Staged
    split: str
    annotation: str
    name: str = ""
    """Of the corpus they come from: none."""

    def to_annotate(self) -> Iterator[LabelledSentence | Sentence]:
        """Yield the sentences that annotator 1 will get, who alone sees suggestions."""
        finished = self.annotation in ("gold", "first")
        return (row for row in self.staged.rows() if not (finished and isinstance(row, LabelledSentence)))

    def add(self, session: Session, actor: Actor, campaign: Campaign) -> tuple[ImportOutcome, int]:
        """Add the sentences; return the outcome, and how many are to be pre-annotated."""
        annotation = exchange.stored_as(self.annotation)
        report = campaign_sentences.append(
            session, actor, campaign, self.staged.rows(), split=self.split, annotation=annotation
        )
        return exchange.outcome_of(self.staged.read_files, report, ""), report.added - report.gold - report.first


@dataclass(frozen=True, slots=True)
class FromCorpus:
    """Sentences that were drawn from a corpus."""

    name: str
    corpus: Any
    chosen: Sequence[Any]
    wanted: int
    split: str

    def add(self, session: Session, actor: Actor, campaign: Campaign) -> tuple[ImportOutcome, int]:
        """Add the sentences; return the outcome, and how many are to be pre-annotated: none that came so."""
        added, own = sampling.add_drawn(session, actor, campaign, self.corpus, self.chosen, split=self.split)
        few = "" if added == self.wanted else f"Only {added:,} of the {self.wanted:,} sentences asked for can be drawn."
        return ImportOutcome(added, 0, 0, "corpus", note=few), added if own is None else 0


def _domain(store: Store, name: str, draft: str) -> Domain:
    if bool(name) == bool(draft):
        raise BadInput("A campaign has one domain: name one that is here, or give the definition of a new one.")
    return domains.check_domain(draft) if draft else domains.get_domain(store, name)


def from_files(
    files: Sequence[tuple[str, Path]],
    kinds: Domain,
    reading: Mapping[str, Any] | None,
    folder: Path,
    *,
    on_progress: staging.Progress = lambda done, message: None,
) -> FromFiles:
    """Read files into a folder for a campaign of a domain; raises as `exchange.import_files` does."""
    options = {"split": "pool", "annotation": "suggestions", **(reading or {})}
    split = options.pop("split")
    staged = staging.stage(files, kinds.type_names, folder, on_progress=on_progress, **options)
    return FromFiles(staged, split, options["annotation"])


def _with_paths(files: Files, folder: Path) -> list[tuple[str, Path]]:
    """Return files with their names, those in memory written into a folder."""
    placed = []
    for number, (name, data) in enumerate(files):
        path = data if isinstance(data, Path) else folder / str(number)
        if isinstance(data, bytes):
            path.write_bytes(data)
        placed.append((name or (data.name if isinstance(data, Path) else "upload"), path))
    return placed


def _from_corpus(
    store: Store, actor: Actor, name: str, plan: Mapping[str, Any] | None, kinds: Domain
) -> FromCorpus | None:
    if not name:
        return None
    corpus, wanted = open_corpus(store, actor, name), SamplingPlan(**(plan or {}))
    chosen, _ = sampling.draw(corpus, wanted, kinds)
    return FromCorpus(name, corpus, chosen, wanted.count, wanted.split)


def _look_at_files(store: Store, actor: Actor, source: FromFiles, kinds: Domain, gazetteer: str | None) -> FirstLook:
    wanted = _places(sum(1 for _ in source.to_annotate()))
    rows = [row for number, row in enumerate(source.to_annotate()) if number in wanted]
    some = [row if isinstance(row, LabelledSentence) else LabelledSentence(row, ()) for row in rows]
    proposed = propose(store, actor, kinds, [row.sentence for row in some], gazetteer=gazetteer)
    looked = tuple(
        Looked(
            _bare(row.sentence),
            (*(Suggestion(span.start, span.end, span.type, _IMPORTED, 1.0) for span in row.spans), *suggestions),
        )
        for row, suggestions in zip(some, proposed.suggestions, strict=True)
    )
    return FirstLook(source.staged.sentences, looked, proposed.problems)


def _look_at_corpus(
    store: Store, actor: Actor, name: str, plan: Mapping[str, Any] | None, kinds: Domain, gazetteer: str | None
) -> FirstLook:
    if not name:
        return FirstLook(0, ())
    corpus = open_corpus(store, actor, name)
    chosen, report = sampling.draw_quickly(corpus, SamplingPlan(**(plan or {})), kinds)
    some = _evenly(chosen)
    with store.read() as session:
        with_own = sampling.speaks_of(session, corpus, kinds)
    if with_own:
        own = [tuple(sampling.own_suggestions(drawn.mentions or (), kinds.type_names)) for drawn in some]
        return FirstLook(report.added, tuple(map(Looked, (_bare(drawn.sentence) for drawn in some), own)))
    proposed = propose(store, actor, kinds, [drawn.sentence for drawn in some], gazetteer=gazetteer)
    looked = tuple(map(Looked, (_bare(drawn.sentence) for drawn in some), proposed.suggestions))
    return FirstLook(report.added, looked, proposed.problems)


def _evenly(rows: Sequence[Row]) -> list[Row]:
    """Return as many as are looked at, from all over the rows."""
    return [rows[number] for number in sorted(_places(len(rows)))]


def _places(count: int) -> set[int]:
    """Return the numbers of those that are looked at, from all over `count` rows."""
    step = max(1, count / LOOKED_AT)
    return {int(number * step) for number in range(min(LOOKED_AT, count))}


def _bare(sentence: Sentence) -> Sentence:
    """Return a sentence without what only an export needs: it may go through another process."""
    return replace(sentence, meta={}, layout=None)
