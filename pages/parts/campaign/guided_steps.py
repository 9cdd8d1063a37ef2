"""The five steps of a new campaign: each draws its inputs and returns what it sets, in values and in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field
from typing import Any

import streamlit as st

from crossner_core.domains import Domain
from crossner_core.errors import WorkbenchError
from crossner_core.schema import Suggestion
from crossner_core.suggest.base import words_of
from pages import shell
from pages.components.marked_text import as_text, marked_sentence
from pages.components.rows import rows_html
from pages.parts.campaign.domain_read import draw_types
from pages.parts.campaign.exchange import ChosenFiles, ask_files, examples, look
from pages.parts.campaign.forms import gazetteers_here, people_names, setting_input
from workbench import out_of_process
from workbench.accounts.actors import Actor
from workbench.accounts.roles import LABELLERS
from workbench.campaigns import campaigns, domains
from workbench.campaigns import settings as campaign_settings
from workbench.campaigns.domain_drafts import draft_from_lines, draft_to_toml
from workbench.data import corpora, sampling, staging
from workbench.data.new_campaign import FirstLook, Looked, first_look
from workbench.data.sampling import SamplingPlan

LOOKS = "new:looks"
_HERE, _PASTED = "One that is here", "A new one, from a list of types"
_FILES, _CORPUS, _LATER = "From files", "From a corpus", "Later"
_RULES = ("blind_share", "lease_minutes", "open_at_submit")
_SUGGESTIONS = ("suggestions_on", "gazetteer", "control_share")
_ADMIN = ("endpoint",)
_PLACEHOLDER = "ship: a named vessel\nharbour\nshipping company: firms that run ships"
_MANY_NAMES = 4


@dataclass(frozen=True)
class Answer:
    """What a step sets: arguments of `make_campaign`, settings among them, in one line; or its fault, in words."""

    summary: str = ""
    fault: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    domain: Domain | None = None
    source: tuple[object, ...] = ()
    """What names the sentences, so that they are not read again while nothing changes."""
    takes_long: bool = False
    """The worker reads the files; none of their sentences is shown before."""


def domain_step(actor: Actor, key: str, before: Sequence[Answer]) -> Answer:
    """Ask for the campaign's name and for its domain."""
    name = st.text_input("Name of the campaign", max_chars=100, key=f"{key}:name").strip()
    how = st.segmented_control("Domain", [_HERE, _PASTED], default=_HERE, required=True, key=f"{key}:how")
    answer = (_domain_here if how == _HERE else _domain_pasted)(actor, key)
    if answer.domain is None or answer.fault:
        return answer
    taken = name.casefold() in {view.name.casefold() for view in _every_campaign(actor)}
    fault = "a name for the campaign" if not name else f"another name than {name}, which is taken" if taken else ""
    shown = f"{name or 'no name'} · {answer.domain.title}, {len(answer.domain.types)} types"
    return Answer(shown, fault, {"name": name, **answer.values}, domain=answer.domain)


def _every_campaign(actor: Actor) -> Sequence[campaigns.CampaignView]:
    return campaigns.list_campaigns(shell.store(), actor, archived=True)


def _domain_here(actor: Actor, key: str) -> Answer:
    known = {view.name: view for view in domains.list_domains(shell.store(), actor)}
    chosen = st.selectbox(
        "Which domain",
        list(known),
        index=None,
        format_func=lambda name: f"{known[name].title} · {len(known[name].types)} types",
        placeholder="Choose a domain",
        key=f"{key}:domain",
        persist_state="session",
    )
    if chosen is None:
        return Answer("not chosen yet", "a domain")
    domain = domains.get_domain(shell.store(), chosen)
    st.caption(as_text(f"Types: {', '.join(kind.title for kind in domain.types)}."))
    return Answer(values={"domain": chosen}, domain=domain)


def _domain_pasted(actor: Actor, key: str) -> Answer:
    title = st.text_input("Name of the domain", max_chars=60, key=f"{key}:title", persist_state="session")
    text = st.text_area(
        "Its types, one a line: a name, or a name: a guideline",
        key=f"{key}:types",
        persist_state="session",
        height=180,
        placeholder=_PLACEHOLDER,
    )
    if not (text or "").strip():
        return Answer("not listed yet", "the types of the domain, one a line")
    try:
        draft = draft_from_lines(text or "", title or "")
        if not draft.name:
            return Answer("not named yet", "a name for the domain, with a letter a–z or a digit")
        toml = draft_to_toml(draft)
        domain = domains.check_domain(toml)
    except WorkbenchError as error:
        st.warning(as_text(str(error).removeprefix("domain: ")))
        return Answer("has a fault", "types without a fault")
    if domain.name in {view.name for view in domains.list_domains(shell.store(), actor)}:
        return Answer("name taken", f"another name for the domain: there is one called {domain.name}")
    draw_types(domain)
    st.caption("Keys and colours are proposed, and the DBpedia class of a type's name where there is one.")
    return Answer(values={"draft": toml}, domain=domain)


def sentences_step(actor: Actor, key: str, before: Sequence[Answer]) -> Answer:
    """Ask where the sentences come from."""
    here = {view.name: view for view in corpora.list_corpora(shell.store(), actor) if not view.problem}
    ways = [_FILES, *([_CORPUS] if here else []), _LATER]
    way = st.segmented_control("Sentences", ways, default=_FILES, required=True, key=f"{key}:way")
    if way == _LATER:
        st.caption("The campaign begins empty. Add sentences under Sentences, or on Corpus.")
        return Answer("none yet: added later")
    domain = before[0].domain
    if way == _CORPUS:
        return _from_corpus(actor, key, here, domain)
    chosen = ask_files(key, "new", 0, folded=True)
    if not chosen.files:
        examples()
        return Answer("no file yet", "a file of sentences, or Later")
    if domain is None:
        return Answer("waits for the domain", "a domain, before files can be checked")
    names = ", ".join(file.name for file in chosen.files)
    if staging.seconds_for(chosen.sizes, chosen.reading["format"]) >= staging.LONG:
        return _large(names, chosen)
    if not look(chosen, domain.type_names):
        return Answer(names, "files without a fault, or Skip bad sentences")
    reading = dict(chosen.reading)
    return Answer(
        f"{names}, to {reading['split']}",
        values={"files": chosen.named, "reading": reading},
        source=("files", chosen.ids, repr(sorted(reading.items()))),
    )


def _large(names: str, chosen: ChosenFiles) -> Answer:
    """Leave files to the worker that take long to read."""
    minutes = max(staging.seconds_for(chosen.sizes, chosen.reading["format"]) / 60, 1)
    st.caption(
        f"These files take about {minutes:,.0f} min: the worker reads and checks them, and makes the campaign with all "
        "of their sentences, or not at all."
    )
    files = [(file.name, file.getbuffer()) for file in chosen.files]
    values = {"files": files, "reading": dict(chosen.reading)}
    return Answer(f"{names}, to {chosen.reading['split']}", values=values, takes_long=True)


def _from_corpus(actor: Actor, key: str, here: Mapping[str, corpora.CorpusView], domain: Domain | None) -> Answer:
    left, right = st.columns([3, 2])
    name = left.selectbox(
        "Corpus",
        list(here),
        format_func=lambda name: f"{name} · {here[name].sentences:,} sentences",
        key=f"{key}:corpus",
        persist_state="session",
    )
    count = right.number_input("How many sentences", 1, sampling.MOST, 100, key=f"{key}:count", persist_state="session")
    st.caption(
        "Drawn by chance, of 5 to 80 tokens, without near-duplicates, with their links. "
        "Corpus has more filters, for sentences that are added later."
    )
    if name is None:
        return Answer("no corpus yet", "a corpus, or Later")
    plan = {name: value for name, value in asdict(SamplingPlan(count=int(count))).items() if name in ("count", "seed")}
    return Answer(
        f"{count:,} drawn from {name}",
        "" if domain is not None else "a domain, before sentences are drawn",
        {"corpus": name, "plan": plan},
        source=("corpus", here[name].hash, repr(plan)),
    )


def people_step(actor: Actor, key: str, before: Sequence[Answer]) -> Answer:
    """Ask who works in the campaign."""
    people = people_names(actor)
    known = {person.id: person for person in campaigns.possible_members(shell.store(), actor)}
    workers = [id_ for id_, person in known.items() if person.role in LABELLERS]
    members = st.multiselect(
        "Who annotates, checks and adjudicates",
        list(people),
        default=workers,
        format_func=people.__getitem__,
        placeholder="Choose people",
        key=f"{key}:members",
        help="Researchers and admins see every campaign anyway.",
    )
    labellers = [known[id_] for id_ in members if known[id_].role in LABELLERS]
    if len(labellers) < 2:
        st.info("A sentence is annotated by one person and checked by another: add two people who label.")
    if not any(person.role == "expert" for person in labellers):
        st.info("No expert is among them: nothing becomes gold until one is added.")
    names = [known[id_].display_name for id_ in members]
    more = f" and {len(names) - _MANY_NAMES} more" if len(names) > _MANY_NAMES else ""
    return Answer(f"{', '.join(names[:_MANY_NAMES]) or 'nobody yet'}{more}", values={"member_ids": members})


def rules_step(actor: Actor, key: str, before: Sequence[Answer]) -> Answer:
    """Ask for the rules; those that nobody needs at first are folded away."""
    asked = _settings(actor, key, _RULES)
    shown = {*_RULES, *_SUGGESTIONS, *(_ADMIN if actor.role != "admin" else ())}
    rest = [spec.name for spec in campaign_settings.fields("rules", "new") if spec.name not in shown]
    with st.popover("More rules"):
        more = _settings(actor, key, rest, columns=1)
    changed = sum(value != _spec(name).default for name, value in more.items())
    others = f", {changed} other rule{'s' * (changed != 1)} changed" if changed else ""
    summary = (
        f"{asked['blind_share']:.0%} annotated blind, a sentence is free after {asked['lease_minutes']} minutes{others}"
    )
    return Answer(summary, settings={**asked, **more})


def suggestions_step(actor: Actor, key: str, before: Sequence[Answer]) -> Answer:
    """Ask what suggests, and show what some of the sentences would get."""
    asked = _settings(actor, key, _SUGGESTIONS)
    if not asked["suggestions_on"]:
        return Answer("no suggestions", settings=asked)
    summary = f"from links and {asked['gazetteer'] or 'the bundled DBpedia sample'}"
    domain, sentences = before[0].domain, before[1]
    if sentences.takes_long:
        st.caption("What the sentences would get is not shown before the worker has read the files.")
        return Answer(summary, settings=asked)
    if domain is None or sentences.fault or not sentences.source:
        st.caption("What ten of the sentences would get is shown here once there are sentences.")
        return Answer(summary, settings=asked)
    seen = _looked(actor, domain, sentences, before[0].values, asked["gazetteer"])
    if isinstance(seen, WorkbenchError):
        st.warning(as_text(str(seen)))
        return Answer(summary, settings=asked)
    _draw_look(seen, domain)
    far = f": {seen.suggested} of {len(seen.looked)} sentences get any" if seen.looked else ""
    return Answer(f"{summary}{far}", settings=asked)


STEPS: tuple[Callable[[Actor, str, Sequence[Answer]], Answer], ...] = (
    domain_step,
    sentences_step,
    people_step,
    rules_step,
    suggestions_step,
)


def _looked(
    actor: Actor, domain: Domain, sentences: Answer, named: Mapping[str, Any], gazetteer: str | None
) -> FirstLook | WorkbenchError:
    """Look once per domain, sentences and gazetteer; an error is kept too."""
    key = (domain.hash, sentences.source, gazetteer)
    looks: dict[object, FirstLook | WorkbenchError] = st.session_state.setdefault(LOOKS, {})
    if key not in looks:
        which = {name: value for name, value in named.items() if name in ("domain", "draft")}
        try:
            with st.spinner("Looking at ten sentences …"):
                looks[key] = out_of_process.call(
                    first_look, shell.store(), actor, **which, **sentences.values, gazetteer=gazetteer or None
                )
        except WorkbenchError as error:
            looks[key] = error
    return looks[key]


def _draw_look(seen: FirstLook, domain: Domain) -> None:
    """Draw the sentences with their suggestions, and a warning where few have any."""
    for problem in seen.problems:
        st.warning(as_text(problem))
    total = len(seen.looked)
    if not total:
        st.caption("Every sentence comes with finished annotation; none needs a suggestion.")
        return
    line = f"{seen.suggested} of {total} sentences get suggestions."
    if seen.few:
        few = f"Only {line}" if seen.suggested else f"None of {total} sentences gets a suggestion."
        st.warning(as_text(f"{few} {_why_few(domain)}"))
    else:
        st.caption(f"{line} They are drawn evenly from all {seen.sentences:,}.")
    st.html(rows_html([f'<div class="row">{_marked(item, domain)}</div>' for item in seen.looked]))


def _marked(item: Looked, domain: Domain) -> str:
    """Return the sentence with its suggestions; of overlapping ones the one with the highest score."""
    shown: list[Suggestion] = []
    for suggestion in sorted(item.suggestions, key=lambda suggestion: -suggestion.score):
        if all(suggestion.end <= other.start or other.end <= suggestion.start for other in shown):
            shown.append(suggestion)
    notes = {suggestion.span: words_of(suggestion.source) for suggestion in shown}
    return marked_sentence(item.sentence, list(notes), domain, notes)


def _why_few(domain: Domain) -> str:
    without = [kind.title for kind in domain.types if not kind.dbpedia]
    if len(without) == len(domain.types):
        return (
            "None of the domain's types has a DBpedia class, so no name in a text can be of one. "
            "Add classes under Domains, or expect annotators to mark every span by themselves."
        )
    if without:
        return (
            f"These types have no DBpedia class: {', '.join(without)}. Annotators will mark most spans by themselves."
        )
    return (
        "The gazetteer knows few of these names. Choose another one, or expect annotators to mark most spans by "
        "themselves."
    )


def _spec(name: str) -> Field[Any]:
    return next(spec for spec in campaign_settings.fields() if spec.name == name)


def _settings(actor: Actor, key: str, names: Sequence[str], *, columns: int = 3) -> dict[str, Any]:
    """Draw settings, each with what it means below it; return their values."""
    asked: dict[str, Any] = {}
    offered = gazetteers_here(actor)
    for first in range(0, len(names), columns):
        row = names[first : first + columns]
        for column, name in zip(st.columns(columns), row, strict=False):
            with column, st.container(gap=None):
                spec = _spec(name)
                asked[name] = setting_input(spec, spec.default, f"{key}:{name}", offered, tooltip=False)
                st.caption(as_text(spec.metadata["help"]))
    return asked
