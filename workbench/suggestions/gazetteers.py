"""Gazetteers of the home folder: list them, look up names in one, and report on its classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from crossner_core.domains import Domain
from crossner_core.errors import BadInput, WorkbenchError
from crossner_core.folders import find_folder, named_folders
from crossner_core.schema import Sentence
from db.engine import Store
from workbench.accounts.actors import Actor, admit
from workbench.accounts.roles import EVERYONE, OVERSEERS
from workbench.settings import settings_of

if TYPE_CHECKING:
    from crossner_core.gazetteer.classes import ClassRow
    from crossner_core.gazetteer.compiled import CompiledGazetteer, Flag
    from crossner_core.gazetteer.ontology import ClassTree
    from crossner_core.gazetteer.preannotate import Explanation

MAX_SURFACE, MAX_TEXT = 300, 5000
_LINK = re.compile(r"\[\[(?P<page>[^\[\]|]+)(?:\|(?P<shown>[^\[\]|]+))?\]\]")
_FLAG_WORDS = {
    "TITLE": "the page's title",
    "LABEL": "a label",
    "REDIRECT": "a redirect",
    "SUFFIX": "without its bracket",
    "COMMA": "without what follows the comma",
    "POSSESSIVE": "possessive",
    "LOWERCASED": "small first letter",
    "PLURAL": "plural",
    "NAME": "a name",
}


@dataclass(frozen=True, slots=True)
class GazetteerView:
    """A gazetteer of the home folder; one that cannot be opened has a `problem` in words and no counts.

    `made_from` describes where its facts come from, `hash` names its content.
    """

    name: str
    problem: str = ""
    hash: str = ""
    made_from: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    aliases: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CandidateView:
    """A page that a name may stand for.

    `type` is its entity type in the domain, None where the domain has none; `path` are the classes from the page's own
    up to the one the domain maps, or up to the top where it maps none. `ways` describes how the name leads to it,
    `prior` is how often it is linked.
    """

    entity: str
    classes: tuple[str, ...]
    type: str | None
    path: tuple[str, ...]
    ways: tuple[str, ...]
    prior: int


@dataclass(frozen=True, slots=True)
class LookUp:
    """The entry of a name in a gazetteer: its candidates, most linked first, and the longest names inside it."""

    surface: str
    candidates: tuple[CandidateView, ...]
    inside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SentenceExplained:
    """Every place of a sentence that was considered, by start, longest first.

    `paths` are the classes of a candidate up to the one the domain maps, by (source, page).
    """

    sentence: Sentence
    places: tuple[Explanation, ...]
    paths: Mapping[tuple[str, str], tuple[str, ...]]


def list_gazetteers(store: Store, actor: Actor) -> tuple[GazetteerView, ...]:
    """Return the gazetteers of the home folder by name, damaged ones with the reason."""
    admit(store, actor, *EVERYONE)
    return tuple(_view(path) for path in named_folders(settings_of(store).gazetteers))


def open_gazetteer(store: Store, name: str) -> CompiledGazetteer:
    """Open a gazetteer by name; raise NotFound naming those that exist, BadInput for a damaged one."""
    from crossner_core.gazetteer.compiled import CompiledGazetteer

    return CompiledGazetteer.open(find_folder(settings_of(store).gazetteers, "gazetteer", name))


def look_up(store: Store, actor: Actor, name: str | None, surface: str, domain: Domain) -> LookUp:
    """Return every page a name may stand for, with its entity type in a domain and the way to it.

    Without the name of a gazetteer the bundled sample is used.
    """
    from crossner_core.tokenize import words_of

    admit(store, actor, *EVERYONE)
    text = " ".join(surface.split())
    if not text or len(text) > MAX_SURFACE:
        raise BadInput(f"The name has {len(text)} characters; look up 1 to {MAX_SURFACE}.")
    if name is None:
        return _look_up_bundled(text, domain)
    gazetteer = open_gazetteer(store, name)
    tree, words = gazetteer.tree, words_of(text)
    views = tuple(
        CandidateView(
            entity=entry.entity,
            classes=entry.classes,
            type=_type(entry.classes, domain, tree),
            path=class_path(entry.classes, domain, tree),
            ways=flag_words(entry.flags),
            prior=entry.prior,
        )
        for entry in gazetteer.entries(text)
    )
    parts = [" ".join(words[start:end]) for start, end, _ in gazetteer.scan([words])[0]]
    return LookUp(text, views, tuple(part for part in parts if part != " ".join(words)))


def _look_up_bundled(text: str, domain: Domain) -> LookUp:
    from crossner_core.gazetteer.lookup import EmbeddedSource
    from crossner_core.gazetteer.ontology import BUILTIN
    from crossner_core.gazetteer.titles import RESOURCE, collapse, local_name

    views = []
    for candidate in EmbeddedSource().lookup([text]).get(text, ()):
        page = collapse(unquote(candidate.entity.removeprefix(RESOURCE)))
        classes = tuple(local_name(item) for item in candidate.classes)
        way = way_words(candidate.via)
        path = class_path(classes, domain, BUILTIN)
        views.append(CandidateView(page, classes, _type(classes, domain, BUILTIN), path, (way,), 0))
    return LookUp(text, tuple(views))


def explain_sentence(
    store: Store, actor: Actor, name: str | None, sentence: Sentence, domain: Domain
) -> SentenceExplained:
    """Explain the outcome for every place in a sentence that pre-annotation considers.

    As in pre-annotation, the gazetteer, if one is named, and the bundled sample are queried.
    """
    from crossner_core.gazetteer.lookup import EmbeddedSource
    from crossner_core.gazetteer.ontology import BUILTIN
    from crossner_core.gazetteer.preannotate import Preannotator

    admit(store, actor, *EVERYONE)
    if len(sentence.text) > MAX_TEXT or not sentence.tokens:
        raise BadInput(f"The sentence has {len(sentence.text)} characters; give one word up to {MAX_TEXT} characters.")
    gazetteer = open_gazetteer(store, name) if name is not None else None
    sources = [*((gazetteer,) if gazetteer is not None else ()), EmbeddedSource()]
    places = Preannotator(sources, domain).explain(sentence)
    class_paths = {}
    for answer in (candidate for explained in places for candidate in explained.candidates):
        tree = gazetteer.tree if gazetteer is not None and answer.source == gazetteer.name else BUILTIN
        class_paths[answer.source, answer.entity] = class_path(answer.classes, domain, tree)
    return SentenceExplained(sentence, tuple(places), class_paths)


def sentence_from_text(text: str) -> Sentence:
    """Read a pasted sentence; `[[Page|words]]` and `[[Page]]` in it are links."""
    from crossner_core.schema import Link, Token
    from crossner_core.tokenize import tokenize

    plain, end, marks = "", 0, []
    for match in _LINK.finditer(text):
        plain += text[end : match.start()]
        shown = match["shown"] or match["page"]
        marks.append((len(plain), len(plain) + len(shown), match["page"].strip()))
        plain, end = plain + shown, match.end()
    plain += text[end:]
    tokens = tuple(Token(token.start, token.end) for token in tokenize(plain))
    links: list[Link] = []
    for low, high, page in marks:
        inside = [number for number, token in enumerate(tokens) if token.start < high and token.end > low]
        if inside and (not links or links[-1].end <= inside[0]):
            links.append(Link(inside[0], inside[-1] + 1, page))
    return Sentence("pasted", plain, tokens, tuple(links))


def classes_without_type(store: Store, actor: Actor, name: str, domain: Domain) -> tuple[ClassRow, ...]:
    """Return the classes of a gazetteer that have no type in a domain, most pages first, each with a suggestion."""
    from crossner_core.gazetteer.classes import fall_through

    admit(store, actor, *OVERSEERS)
    gazetteer = open_gazetteer(store, name)
    return fall_through(gazetteer.classes_with_counts(), domain, gazetteer.tree)


def class_path(classes: tuple[str, ...], domain: Domain, tree: ClassTree) -> tuple[str, ...]:
    """Return the classes from one of a page's own up to the nearest that the domain maps; up to the top without one."""
    from crossner_core.gazetteer.classes import type_of_class

    mapped = [name for name in classes if type_of_class(name, domain, tree) is not None]
    start = max(mapped or classes, key=tree.depth, default=None)
    path: list[str] = []
    while start is not None and start not in path:
        path.append(start)
        if domain.type_for_class(start) is not None:
            break
        above = tree.parents.get(start, ())
        start = next(
            (name for name in above if type_of_class(name, domain, tree) is not None), above[0] if above else None
        )
    return tuple(path)


def flag_words(flags: Flag) -> tuple[str, ...]:
    """Describe how a name leads to a page."""
    return tuple(_FLAG_WORDS.get(flag.name or "", flag.name or "") for flag in flags)


def way_words(way: str) -> str:
    """Describe the way that pre-annotation names: `suffix`, `redirect`."""
    return _FLAG_WORDS.get(way.upper(), way)


def _type(classes: tuple[str, ...], domain: Domain, tree: ClassTree) -> str | None:
    from crossner_core.gazetteer.classes import specific_types

    return next(iter(specific_types(classes, domain, tree)), None)


def _view(folder: Path) -> GazetteerView:
    from crossner_core.gazetteer.compiled import CompiledGazetteer

    try:
        manifest = CompiledGazetteer.open(folder).manifest
    except WorkbenchError as error:
        return GazetteerView(folder.name, problem=str(error))
    source = manifest.source
    files = ", ".join(file.name for file in source.files)
    words = {"dump": "DBpedia dumps", "endpoint": "the endpoint", "wikipedia": "a Wikipedia dump"}
    made = f"{words.get(source.kind, source.kind)} {source.address or files}".strip()
    return GazetteerView(
        name=folder.name,
        hash=manifest.hash,
        made_from=made + (f" of {source.date}" if source.date else ""),
        counts=manifest.counts,
        aliases=manifest.aliases,
    )
