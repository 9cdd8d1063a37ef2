"""Infobox templates: DBpedia's mappings from templates to classes, and the templates at the head of a page.

Mappings are read from an export of the mappings wiki (http://mappings.dbpedia.org), one page `Mapping en:Infobox …` per
template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple
from xml.etree.ElementTree import Element, iterparse

from crossner_core.errors import BadInput
from crossner_core.gazetteer.ontology import THING, ClassTree, open_binary, unreadable
from crossner_core.gazetteer.titles import collapse

if TYPE_CHECKING:
    from mwparserfromhell.nodes import Template
    from mwparserfromhell.wikicode import Wikicode


OPERATORS = ("isSet", "equals", "contains", "otherwise")
TEMPLATE_NAME = "$TemplateName"

_TITLE = re.compile(r"Mapping(?: [a-z-]+)?:\s*(?P<name>.+)", re.DOTALL)
_REDIRECT = re.compile(r"\s*#redirect\s*:?\s*\[\[(?P<target>[^\]|#]+)", re.IGNORECASE)
_PREFIX = re.compile(r"(?:(?:subst|safesubst|msg|msgnw|template)\s*:\s*)+", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CLASS = re.compile(r"(?:dbo:)?(?P<name>[^\W_][\w:-]*)\Z")
_DEFAULTS = re.compile(r"\|\s*defaultMappings\s*=|\|\s*mappings\s*=")


def template_title(name: str) -> str:
    """Return the title of a template as it is called in a text: no comment, no prefix, first letter capital."""
    title = _PREFIX.sub("", collapse(_COMMENT.sub("", name)), count=1).strip()
    return title[:1].upper() + title[1:]


@dataclass(frozen=True, slots=True)
class Condition:
    """One case of a conditional mapping: the class if a parameter of the template fulfils it."""

    parameter: str
    operator: str
    value: str
    cls: str

    def holds(self, name: str, parameters: Mapping[str, str]) -> bool:
        """Tell whether a use of a template fulfils it; letter case does not matter."""
        if self.operator == "otherwise":
            return True
        given = name if self.parameter == TEMPLATE_NAME else parameters.get(self.parameter, "")
        given, value = collapse(given).casefold(), collapse(self.value).casefold()
        match self.operator:
            case "isSet":
                return bool(given)
            case "equals":
                return given == value
            case _:
                return value in given


@dataclass(frozen=True)
class InfoboxMappings:
    """Template titles → classes. Titles match in any letter case, since Wikipedia redirects between those.

    `cases` holds for each mapped template its conditions in order; an unconditional mapping is one `otherwise`.
    `redirects` maps template titles to template titles, those of the mappings wiki and those of a dump.
    """

    cases: Mapping[str, tuple[Condition, ...]]
    redirects: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    problems: tuple[str, ...] = ()
    _found: dict[str, str | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _folded: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for title in sorted(self.cases, reverse=True):
            self._folded[title.casefold()] = title
        for source in sorted(self.redirects):  # the mapping may be kept under a name that the template had before
            if (mapped := self._folded.get(source.casefold())) is not None:
                self._folded.setdefault(self._end(source).casefold(), mapped)

    def mapped(self, template: str) -> str | None:
        """Return the title under which a template, or what it redirects to, is mapped; None if it is not."""
        title = template_title(template)
        if title not in self._found:
            if len(self._found) >= 100_000:
                self._found.clear()
            found = self._folded.get(title.casefold())
            self._found[title] = found if found is not None else self._folded.get(self._end(title).casefold())
        return self._found[title]

    def _end(self, title: str) -> str:
        """Follow redirects; a cycle ends where it begins."""
        seen = {title}
        while (following := self.redirects.get(title)) is not None and following not in seen:
            seen.add(title := following)
        return title

    def is_conditional(self, template: str) -> bool:
        """Tell whether a template's class depends on its parameters."""
        title = self.mapped(template)
        return title is not None and any(case.operator != "otherwise" for case in self.cases[title])

    def class_of(self, template: str, parameters: Mapping[str, str] | None = None) -> str | None:
        """Return the class of a page that uses a template with such parameters (name → plain text).

        None for a template without a mapping, or whose mapping is `owl:Thing` or has no matching case.
        """
        if (title := self.mapped(template)) is None:
            return None
        name = template_title(template)
        cls = next((case.cls for case in self.cases[title] if case.holds(name, parameters or {})), THING)
        return None if cls == THING else cls

    def unknown_classes(self, tree: ClassTree) -> dict[str, tuple[str, ...]]:
        """Return the classes that are not in the tree, each with the templates mapped to it."""
        unknown: dict[str, list[str]] = {}
        for title in sorted(self.cases):
            for cls in dict.fromkeys(case.cls for case in self.cases[title]):
                if cls != THING and not tree.known(cls):
                    unknown.setdefault(cls, []).append(title)
        return {cls: tuple(unknown[cls]) for cls in sorted(unknown)}

    def with_redirects(self, redirects: Mapping[str, str]) -> InfoboxMappings:
        """Return the mappings with a dump's template redirects (titles without namespace), which take precedence."""
        fresh = {template_title(source): template_title(target) for source, target in redirects.items()}
        return replace(self, redirects={**self.redirects, **fresh})


def read_mappings(path: Path | str) -> InfoboxMappings:
    """Read the mappings from a MediaWiki XML export, plain or .xz, .bz2, .gz.

    BadInput for a file that cannot be read or holds no mapping; pages that hold none are named in `problems`.
    """
    path = Path(path)
    cases: dict[str, tuple[Condition, ...]] = {}
    redirects: dict[str, str] = {}
    problems: list[str] = []
    with unreadable(path, "a MediaWiki export"), open_binary(path) as stream:
        for title, text in _pages(stream):
            match = _TITLE.fullmatch(title)
            if match is None or match["name"].startswith("Table/"):  # tables inside a page say nothing about it
                continue
            name, before = template_title(match["name"]), len(problems)
            if (redirect := _REDIRECT.match(text)) is not None:
                target = _TITLE.fullmatch(redirect["target"].strip())
                redirects[name] = template_title(target["name"] if target else redirect["target"])
            elif read := tuple(_conditions(text, name, problems)):
                cases[name] = read
            elif len(problems) == before:
                problems.append(f"{name}: its page holds no mapping")
    if not cases:
        raise BadInput(
            f"{path.name}: has no page `Mapping en:…` with a mapping; it is not an export of http://mappings.dbpedia.org."
        )
    mappings = InfoboxMappings(cases, redirects, path.name)
    lost = [f"{name}: redirects to {redirects[name]}, which has no mapping" for name in _lost(mappings)]
    return replace(mappings, problems=tuple(problems + lost))


def _lost(mappings: InfoboxMappings) -> list[str]:
    return [name for name in sorted(mappings.redirects) if mappings.mapped(name) is None]


def _pages(stream: IO[bytes]) -> Iterator[tuple[str, str]]:
    title, text = "", ""
    for _, element in iterparse(stream, events=("end",)):
        match element.tag.rpartition("}")[2]:
            case "title":
                title = _text(element)
            case "text":
                text = _text(element)
            case "page":
                yield title.strip(), text
                title, text = "", ""
                element.clear()


def _text(element: Element) -> str:
    return element.text or ""


def _conditions(text: str, page: str, problems: list[str]) -> Iterator[Condition]:
    """Yield the cases of a mapping page; what cannot be read is reported and left out."""
    from mwparserfromhell import parse

    for template in parse(_without_properties(_COMMENT.sub("", text))).filter_templates(recursive=False):
        match collapse(str(template.name)):
            case "TemplateMapping":
                if (cls := _class(template, page, problems)) is not None:
                    yield Condition("", "otherwise", "", cls)
                return
            case "ConditionalMapping":
                yield from _cases(_argument(template, "cases"), page, problems)
                return


def _without_properties(text: str) -> str:
    """Cut off the long lists of property mappings, which say nothing about classes.

    They are the last argument of a mapping; the braces that closed it are put back by counting.
    """
    if text.count("mapToClass") == 1 and (match := _DEFAULTS.search(text, text.index("mapToClass"))) is not None:
        return text[: match.start()] + "}}" * (text.count("{{", 0, match.start()) - text.count("}}", 0, match.start()))
    if (match := re.search(r"\|\s*defaultMappings\s*=", text)) is not None:
        return text[: match.start()] + "}}" * (text.count("{{", 0, match.start()) - text.count("}}", 0, match.start()))
    return text


def _argument(template: Template, name: str) -> Wikicode | None:
    return template.get(name).value if template.has(name) else None


def _cases(cases: Wikicode | None, page: str, problems: list[str]) -> Iterator[Condition]:
    for case in _templates(cases, "Condition"):
        parameter, operator, value = (
            collapse(str(_argument(case, name) or "")) for name in ("templateProperty", "operator", "value")
        )
        mapping = next(_templates(_argument(case, "mapping"), "TemplateMapping"), None)
        cls = _class(mapping, page, problems) if mapping is not None else None
        if operator not in OPERATORS:
            problems.append(f"{page}: operator {operator!r} is none of {', '.join(OPERATORS)}; that case is left out")
        elif mapping is None:
            problems.append(f"{page}: the case {parameter} {operator} {value} has no mapping and is left out")
        elif cls is not None:
            yield Condition(parameter, operator, value, cls)


def _templates(code: Wikicode | None, name: str) -> Iterator[Template]:
    templates: Iterable[Template] = () if code is None else code.filter_templates(recursive=False)
    return (template for template in templates if collapse(str(template.name)) == name)


def _class(template: Template, page: str, problems: list[str]) -> str | None:
    class_name = collapse(str(_argument(template, "mapToClass") or "")).replace(" ", "_")
    if class_name in ("owl:Thing", THING):
        return THING
    if (match := _CLASS.match(class_name)) is None:
        problems.append(f"{page}: maps to {class_name!r}, which is no class name")
        return None
    return match["name"][:1].upper() + match["name"][1:]


LONGEST_BOX = 100_000  # characters; a box is longer only if its braces do not match

_BRACES = re.compile(r"\{\{+|\}\}+")
_HEADING = re.compile(r"^==[^=\n].*?==[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"\{\{\s*+(?P<name>[^|{}\n\[\]<>]{1,255}+)(?=\n|\||\}\}|\{\{|<|\Z)")
_STUB = re.compile(r"\{\{(?!\{)\s*+(?P<name>[^|{}\n\[\]<>]{0,99}?(?:[Ss]tub|[Pp]ersondata))\s*+[|}\n]")
_QUOTES = re.compile("''+")
_BOX = re.compile(r"infobox|taxobox|chembox|drugbox|geobox|speciesbox", re.IGNORECASE)
_DISAMBIGUATION = re.compile(
    r"\{\{(?!\{)\s*+(?:template:)?(?:disambiguation(?: page)?|disambig|disamb|dab|hndis|hndab"
    r"|human name disambiguation|geodis|geodab|place name disambiguation|numberdis|letter[ _]?disambig"
    r"|letter-number(?: combination)? disambiguation"
    r"|mil-unit-dis|schooldis|school disambiguation|hospitaldis|call ?sign ?disambig|airport disambig|roaddis"
    r"|surname|given[ _]name|nickname|human name|sia|set index(?: article)?|ship ?index|mountainindex|road ?index"
    r"|sport ?index|plant common name|fungus common name|species latin name (?:abbreviation )?disambiguation"
    r"|(?:[a-z-]++ )?disambiguation|disambig[ -][a-z-]+|[a-z]{1,20}-dab)\s*+[|}]",
    re.IGNORECASE,
)


class Box(NamedTuple):
    """A template as a page uses it: its title, and the wikitext from its first brace to its last."""

    name: str
    wikitext: str

    @property
    def is_infobox(self) -> bool:
        """Whether its name says that it describes what the page is about."""
        return _BOX.search(self.name) is not None


def without_comments(text: str) -> str:
    """Return a page's wikitext without its comments."""
    return _COMMENT.sub("", text) if "<!--" in text else text


def is_disambiguation(title: str, text: str) -> bool:
    """Tell whether a page only lists what a name may mean (also surnames, given names and set indices)."""
    return title.endswith("(disambiguation)") or _DISAMBIGUATION.search(text) is not None


def lead_boxes(text: str) -> Iterator[Box]:
    """Yield the top-level templates before a page's first heading, stub notices left out.

    The text has no comments.
    """
    heading = _HEADING.search(text)
    end = heading.start() if heading else len(text)
    depth, start = 0, 0
    for braces in _BRACES.finditer(text, 0, end):
        pairs = len(braces[0]) // 2
        if braces[0][0] == "{":
            if depth == 0:
                start = braces.end() - 2 * pairs
            depth += pairs
        elif depth:
            depth = max(0, depth - pairs)
            if depth == 0:
                yield from _box(text[start : braces.end()])
    if depth:  # never closed: its name still tells what it is
        yield from _box(text[start:end])


def _box(wikitext: str) -> Iterator[Box]:
    match = _NAME.match(wikitext)
    name = template_title(match["name"]) if match is not None else ""
    if name and not name.casefold().endswith(("stub", "persondata")):
        yield Box(name, wikitext)


def stubs(text: str) -> list[str]:
    """Return the titles of the stub notices (and person data) of a page, in order, each once."""
    return list(dict.fromkeys(template_title(match["name"]) for match in _STUB.finditer(text)))


def parameters(wikitext: str) -> dict[str, str] | None:
    """Return a template's parameters as plain text by name; None if the text is not one template or is far too long."""
    from mwparserfromhell import parse

    if len(wikitext) > LONGEST_BOX:
        return None
    template = next(iter(parse(wikitext, skip_style_tags=True).filter_templates(recursive=False)), None)
    if template is None:
        return None
    plain = {}
    for item in template.params:
        text = item.value.strip_code(normalize=True, collapse=True, keep_template_params=True)
        plain[str(item.name).strip()] = _QUOTES.sub("", str(text)).strip()
    return plain
