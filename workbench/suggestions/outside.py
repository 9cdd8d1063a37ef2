"""Outside models as sources of suggestions: nothing is sent before somebody allowed it for a campaign."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from crossner_core.domains import Domain
from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotFound
from crossner_core.outside.asking import Spend, check_key, most_of
from crossner_core.outside.base import OutsideModel, Request, chosen_examples
from crossner_core.outside.listing import find_model, kind_of, kinds, read_models
from crossner_core.records import to_json
from crossner_core.schema import LabelledSentence
from crossner_core.suggest.base import words_of
from db import suggestion_rows
from db.engine import Session, Store
from db.tables import Campaign, OutsideAllowance
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of
from workbench.data.layers import gold_to_learn_from
from workbench.settings import settings_of
from workbench.suggestions.by_people import withdraw_source
from workbench.suggestions.preannotating import StoreCache, unlabelled_pool

_MOST_REQUESTS, _MOST_TOKENS, _MOST_COST = 10_000_000, 10**12, 1e9
_BYTES_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Budget:
    """What a campaign may spend at a model: requests, and tokens and money where they are limited."""

    requests: int
    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """A campaign's permission for a model: its budget, what was spent of it, and what came of the answers."""

    is_open: bool
    budget: Budget
    spent: Spend
    answered: int
    unusable: int
    dropped: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class OutsideView:
    """An outside model, as a campaign sees it; `problem` says why it cannot be asked, `allowed` is None before it was.

    `suggestions` is how many of its suggestions the campaign has.
    """

    name: str
    kind: str
    title: str
    address: str
    host: str
    model: str
    currency: str
    has_price: bool
    problem: str
    allowed: Allowed | None
    suggestions: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be sent where, and what that may cost: nothing has been sent.

    `request` is the first sentence's as JSON values. `tokens` and `cost` are for all `new` sentences, whose answers are
    not kept yet: about, and at most. `warnings` are about the way there.
    """

    name: str
    url: str
    model: str
    has_key: bool
    open: int
    new: int
    request: Mapping[str, object]
    tokens: tuple[int, int]
    cost: tuple[float, float]
    currency: str
    warnings: tuple[str, ...]


def outside_models(store: Store, actor: Actor, campaign_id: int) -> tuple[OutsideView, ...]:
    """Return the outside models that the settings name, and those the campaign was allowed to ask before."""
    require(actor, *KEEPERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
        rows = suggestion_rows.allowances(session, campaign_id)
        models = models_of(store)
        return tuple(_view(session, campaign_id, name, models.get(name), rows.get(name)) for name in {**models, **rows})


def plan(store: Store, actor: Actor, campaign_id: int, name: str) -> Plan:
    """Return what asking a model about a campaign's open sentences would send where; sends nothing.

    Raises NotFound for a model that the settings do not name, Conflict if no sentence is open.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        model, domain = find_model(models_of(store), name), domain_of(campaign)
        pool = [sentence for _, sentence in unlabelled_pool(session, campaign_id)]
        examples = examples_for(session, campaign_id, model, domain)
    if not pool:
        raise Conflict("No open sentence is left to ask about: people have begun all of them, or there are none.")
    requests = [model.request(domain, sentence, examples) for sentence in pool]
    kept = StoreCache(store).get_many(model.address, [request.key for request in requests])
    new = [request for request in requests if request.key not in kept]
    about, most = _sums(model, new)
    return Plan(
        name,
        requests[0].url,
        model.model,
        bool(model.key_variable),
        len(pool),
        len(new),
        to_json(requests[0].body),
        (about.input_tokens + about.output_tokens, most.input_tokens + most.output_tokens),
        (about.cost, most.cost),
        model.currency,
        _warnings(model),
    )


def _sums(model: OutsideModel, requests: Sequence[Request]) -> tuple[Spend, Spend]:
    """Return about what requests take (four bytes a token, a tenth of the longest answer), and at most."""
    most = [most_of(model, request) for request in requests]
    sent, answered = sum(each.input_tokens for each in most), sum(each.output_tokens for each in most)
    few, short = sent // _BYTES_A_TOKEN, answered // 10
    return (
        Spend(len(requests), few, short, model.price(len(requests), few, short)),
        Spend(len(requests), sent, answered, model.price(len(requests), sent, answered)),
    )


def _warnings(model: OutsideModel) -> tuple[str, ...]:
    parts = urlsplit(model.address)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    lines = []
    if parts.scheme == "http" and not local:
        what = "Sentences and key" if model.key_variable else "Sentences"
        lines.append(f"{what} travel unencrypted to {parts.hostname}: the address begins with http.")
    if not model.has_price and not local:
        lines.append(f"The settings name no price for {model.name}: its cost is counted as 0.")
    return tuple(lines)


def allow(
    store: Store,
    actor: Actor,
    campaign_id: int,
    name: str,
    *,
    address: str,
    requests: int,
    tokens: int | None = None,
    cost: float | None = None,
) -> None:
    """Allow a campaign's sentences to be sent to a model, within a budget; sends nothing.

    `address` is where the person was told that they would go: another one in the settings raises Conflict. The budget
    counts from the first request on; to allow more, allow again with a larger one.
    """
    require(actor, *KEEPERS)
    budget = _checked(Budget(requests, tokens, cost))
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        refuse_archived(campaign)
        model = find_model(models_of(store), name)
        if model.address != address:
            raise Conflict(
                f"The address of {name} is {model.address} now, and was shown as {address}; look at the plan again."
            )
        if budget.cost is not None and not model.has_price:
            raise BadInput(f"The settings name no price for {name}, so no cost can be limited; limit requests.")
        suggestion_rows.allow_outside(
            session, campaign_id=campaign_id, name=name, address=model.address, model=model.model,
            max_requests=budget.requests, max_tokens=budget.tokens, max_cost=budget.cost, allowed_by=current.id,
        )  # fmt: skip
        details = {"address": model.address, "requests": budget.requests, "tokens": budget.tokens, "cost": budget.cost}
        audit.record(session, current, "allow_outside_model", ("outside model", name), campaign_id, **details)


def forbid(store: Store, actor: Actor, campaign_id: int, name: str) -> None:
    """Take the permission back: no further request is sent, also by a job under way; its suggestions stay."""
    require(actor, *KEEPERS)
    with store.write() as session:
        current, _ = enter(session, actor, campaign_id, *KEEPERS)
        row = suggestion_rows.allowance(session, campaign_id, name)
        if row is None or not row.is_open:
            raise NotFound(f"Nothing may be sent to {name!r} in this campaign; there is nothing to take back.")
        row.is_open = False
        audit.record(session, current, "forbid_outside_model", ("outside model", name), campaign_id)


def withdraw(store: Store, actor: Actor, campaign_id: int, name: str) -> tuple[int, int]:
    """Delete a model's suggestions in sentences that nobody has begun; return how many, and how many stay."""
    require(actor, *KEEPERS)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        refuse_archived(campaign)
        sources = _sources(session, campaign_id, name)
        if not sources:
            raise NotFound(f"{name!r} suggests nothing in this campaign; there is nothing to withdraw.")
        counts = [withdraw_source(session, campaign_id, source) for source in sources]
        removed, stay = sum(gone for gone, _ in counts), sum(left for _, left in counts)
        audit.record(
            session, current, "withdraw_outside_model", ("outside model", name), campaign_id, suggestions=removed
        )
        return removed, stay


def source_named(model: OutsideModel) -> str:
    """Return the source under which a model's suggestions are stored: `chat:own`."""
    return f"{next(iter(kind_of(model).kinds))}:{model.name}"


def permitted(session: Session, campaign: Campaign, model: OutsideModel) -> OutsideAllowance:
    """Return the campaign's allowance; raise Conflict unless it is open, for this address and model."""
    row = suggestion_rows.allowance(session, campaign.id, model.name)
    if row is None or not row.is_open:
        raise Conflict(
            f"Nobody has allowed the sentences of {campaign.name!r} to be sent to {model.name} at {model.address}; "
            "allow it first, on Campaigns or with workbench outside allow."
        )
    if (row.address, row.model) != (model.address, model.model):
        raise Conflict(
            f"Allowed was to send to {row.model or 'the model'} at {row.address}; the settings now name "
            f"{model.model or 'the model'} at {model.address}. Look at the plan, and allow it anew."
        )
    return row


def examples_for(
    session: Session, campaign_id: int, model: OutsideModel, domain: Domain
) -> tuple[LabelledSentence, ...]:
    """Return the gold sentences that go along with requests: of train alone, with types that the domain still has."""
    if not model.takes_examples:
        return ()
    gold = [item.labelled for item in gold_to_learn_from(session, campaign_id) if item.split == "pool"]
    known = [item for item in gold if all(span.type in domain.titles for span in item.spans)]
    return chosen_examples(model, known)


def models_of(store: Store) -> dict[str, OutsideModel]:
    """Return the outside models that the settings name."""
    return read_models(settings_of(store).outside_models)


def key_of(model: OutsideModel) -> str:
    """Return the key for a model from its variable, "" if it needs none or the variable is not set."""
    return os.environ.get(model.key_variable, "") if model.key_variable else ""


def _view(
    session: Session, campaign_id: int, name: str, model: OutsideModel | None, row: OutsideAllowance | None
) -> OutsideView:
    count = sum(
        suggestion_rows.count_of(session, campaign_id, source) for source in _sources(session, campaign_id, name)
    )
    allowed = None if row is None else _allowed(row)
    if model is None:
        assert row is not None, "a model is named by the settings or by an allowance"
        gone = "The settings no longer name this model."
        return OutsideView(name, "", "", row.address, _host(row.address), row.model, "", False, gone, allowed, count)
    try:
        check_key(model, key_of(model))
        problem = ""
    except InvalidConfig as error:
        problem = str(error)
    kind = kind_of(model)
    return OutsideView(
        name, kind.id, words_of(source_named(model)), model.address, _host(model.address), model.model,
        model.currency, model.has_price, problem, allowed, count,
    )  # fmt: skip


def _host(address: str) -> str:
    return urlsplit(address).netloc


def _allowed(row: OutsideAllowance) -> Allowed:
    return Allowed(
        row.is_open,
        Budget(row.max_requests, row.max_tokens, row.max_cost),
        Spend(row.requests, row.input_tokens, row.output_tokens, row.cost),
        row.answered,
        row.unusable,
        row.dropped,
    )


def _sources(session: Session, campaign_id: int, name: str) -> list[str]:
    """Return the sources under which a model of this name has suggestions, of whatever kind it was."""
    names = [f"{kind}:{name}" for each in kinds().values() for kind in each.kinds]
    return [source for source in names if suggestion_rows.count_of(session, campaign_id, source)]


def _checked(budget: Budget) -> Budget:
    """Return a budget; raise BadInput for one that is out of range."""
    _check_number("requests", budget.requests, 1, _MOST_REQUESTS, int)
    if budget.tokens is not None:
        _check_number("tokens", budget.tokens, 1, _MOST_TOKENS, int)
    if budget.cost is not None:
        _check_number("cost", budget.cost, 0, _MOST_COST, int | float)
    return budget


def _check_number(what: str, value: object, low: float, high: float, kind: type | object) -> None:
    fits = isinstance(value, kind) and not isinstance(value, bool) and low <= value <= high  # type: ignore[arg-type, operator]
    if not fits:
        whole = "whole " if kind is int else ""
        raise BadInput(f"The budget's {what} is {value!r}; allowed is a {whole}number from {low:,} to {high:,.0f}.")
