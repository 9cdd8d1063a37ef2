"""A page's wikitext to paragraphs with link spans: one pass of a stack machine, where that is safe.

Wherever wikitext is broken or odd enough that two readers could differ, the fast reader gives up with a reason and
`fallback` reads the page.
"""

from __future__ import annotations

import re
from functools import lru_cache

from crossner_core.wikipedia import fallback
from crossner_core.wikipedia.blocks import paragraphs_of
from crossner_core.wikipedia.inline import is_inline, render
from crossner_core.wikipedia.markup import (
    ARTICLE,
    BAD,
    BLOCK,
    CLOSE,
    COMMENT,
    FORMULA,
    FUNCTIONS,
    HIDDEN,
    HOLE,
    NOTHING,
    NUMBER_END,
    OPEN,
    STYLE,
    TABLE,
    TEXT,
    VOID,
    Extract,
    Marked,
    classify,
    formula,
    names,
    prepare,
    protected,
    shown_of,
)


class Unsure(Exception):
    """The fast reader gives up on a page; the message is the reason."""


MAX_DEPTH = 30
_NAMES = sorted(HIDDEN | FORMULA | {"nowiki"})
_OPAQUE = re.compile(r"<(?:(!--)|(/?)(" + "|".join(_NAMES) + r")(?=[\s/>])([^<>]*)>)", re.IGNORECASE)
_CLOSERS = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in _NAMES}
# Tags whose content mwparserfromhell does not parse; the content of other hidden tags must be balanced to be skipped.
_UNREAD = FORMULA | names(
    "nowiki gallery timeline imagemap pre source syntaxhighlight score graph hiero categorytree inputbox section "
    "templatedata"
)
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_LINK = re.compile(r"\[\[[^\[\]]*\]\]")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_ANY_TAG = re.compile(r"<(?:(/?)([A-Za-z][A-Za-z0-9]*)(?=[\s/>])([^<>]*)>|(?=[A-Za-z/!]))")
AUTOLINK = re.compile(r"<https?://[^<>\s{}\[\]|]*>")


def without_opaque(text: str) -> str:
    """Replace comments and opaque tags with their markers; raises Unsure where an end is missing or in doubt."""
    out: list[str] = []
    position = 0
    while match := _OPAQUE.search(text, position):
        out.append(text[position : match.start()])
        position = match.end()
        if match[1]:
            position = text.find("-->", position) + 3
            if position < 3:
                raise Unsure("unclosed comment")
            out.append(COMMENT)
            continue
        name, attributes = match[3].lower(), match[4]
        if match[2] and attributes.strip():  # closes nothing: left to the scanner
            out.append(match[0])
        elif match[2] or attributes.count('"') % 2 or "{" in attributes or "[" in attributes:
            raise Unsure(f"odd tag {name}")
        elif attributes.endswith("/"):
            out.append(NOTHING if name == "nowiki" else HOLE)
        else:
            shown, position = _whole(text, name, position)
            out.append(shown)
    if not out:
        return text
    out.append(text[position:])
    return "".join(out)


def _whole(text: str, name: str, start: int) -> tuple[str, int]:
    """Return the replacement of a tag whose content begins at `start`, and where it ends."""
    close = _CLOSERS[name].search(text, start)
    if close is None:
        raise Unsure(f"unclosed tag {name}")
    content = text[start : close.start()]
    if name == "nowiki":
        return protected(content), close.end()
    if name in FORMULA:
        return formula(content), close.end()
    if name not in _UNREAD:
        opened = _left_open(content)
        if opened is None or any(re.search(rf"</{tag}[\s>]", text[close.end() :], re.IGNORECASE) for tag in opened):
            raise Unsure(f"unbalanced markup in {name}")
    return HOLE, close.end()


def _left_open(content: str) -> list[str] | None:
    """Return the tags left open in a tag's content, None if other markup may reach beyond its end."""
    if "<" in content:
        try:
            content = without_opaque(content)
        except Unsure:
            return None
    if "{" in content or "}" in content:
        content = _removed(_TEMPLATE, content, "{{")
        if "{{" in content or "}}" in content or "{|" in content:
            return None
    if "[" in content or "]" in content:
        if not brackets_closed(content):
            return None
        content = _removed(_LINK, content, "[[")
        if "[[" in content or "]]" in content:
            return None
    return _open_tags(content) if "<" in content else []


def _open_tags(content: str) -> list[str] | None:
    """Return the tags that are not closed, None if one is closed that is not open."""
    opened: list[str] = []
    for match in _ANY_TAG.finditer(content):
        if match[2] is None:
            if not AUTOLINK.match(content, match.start()):
                return None
            continue
        name = match[2].lower()
        if name in VOID or match[3].endswith("/"):
            continue
        if not match[1]:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return None
    return opened


def brackets_closed(content: str) -> bool:
    """Tell whether no external link inside can reach beyond the end: each `[` has its `]`."""
    return "[" not in content or "[" not in _removed(_BRACKETS, content, "[")


def _removed(pattern: re.Pattern[str], text: str, opener: str) -> str:
    """Remove what matches, from the inside out, as deep as the scanner goes."""
    for _ in range(MAX_DEPTH):
        if opener not in text:
            break
        text, count = pattern.subn("", text)
        if not count:
            break
    return text


def extract(text: str, title: str = "") -> Extract:
    """Read a page, fast where that is safe, otherwise with the fallback; raises Unreadable if neither can.

    `title` stands for `{{PAGENAME}}`.
    """
    text = prepare(text)
    try:
        return _extracted(_mark(text, title))
    except Unsure as unsure:
        return _extracted(fallback.mark(text, title), "fallback", str(unsure))


def extract_slow(text: str, title: str = "") -> Extract:
    """Read a page with mwparserfromhell alone; raises Unreadable if it cannot."""
    return _extracted(fallback.mark(prepare(text), title), "fallback", "asked for")


def _extracted(marked: Marked, parser: str = "fast", reason: str = "") -> Extract:
    return Extract(
        paragraphs_of(marked.text, marked.targets), tuple(marked.categories), tuple(marked.templates), parser, reason
    )


# Every alternative begins with a plain character, so that `re` can skip to the next of them.
_TOKEN = re.compile(
    r"\[\[([^\[\]{}<>|\n\x01-\x05\x07\x08]+)(?:\|([^\[\]{}<>|\n\x01-\x03]*))?\]\]"  # 1, 2: a link without markup inside
    r"|\{\{([^\[\]{}<>|\n\x01-\x05\x07\x08]+)\n?(?:\|([^\[\]{}<]*))?\}\}(?!\}(?!\}))"  # 3, 4: such a template
    r"|\{\{(\{*)"  # 5
    r"|\}\}(\}*)"  # 6
    r"|\[\[(\[*)"  # 7
    r"|\]\](\]*)"  # 8
    r"|<(/?)([A-Za-z][A-Za-z0-9]*)(?=[\s/>])([^<>{}\[\]]*)>"  # 9, 10, 11: a tag
    r"|<(?=[A-Za-z/!])()"  # 12: something like a tag
    r"|\n([ :]*)\{\|"  # 13
    r"|\n([ ]*)\|\}(?!\})"  # 14
)
_NAME = re.compile(
    r"\s*([^\[\]{}<>|\n\x01-\x05\x07\x08]*[^\[\]{}<>|\s\x01-\x05\x07\x08][^\[\]{}<>|\n\x01-\x05\x07\x08]*)\s*(?=\||\}\})"
)
_FUNCTION_NAME = re.compile(r"\s*(#?[A-Za-z]+:)[^|\n{}\[\]<>]*(?=\{\{)")
_ODD_TABLE = re.compile(r"[^\n]*?(?:\[\[|<[A-Za-z/])|\}")
_PIPE_IN_BRACKETS = re.compile(r"\[[^\[\]]*\|")
_MAX_DROPPED = 4_000_000  # characters read to make sure that tags stay open
_OFTEN_UNCLOSED = frozenset(("li", "dt", "dd", "p"))
_IN_TEMPLATE, _IN_LINK, _IN_TABLE = "template", "link", "table"


@lru_cache(maxsize=1 << 16)
def _article(target: str) -> tuple[str, str]:
    """Return the article title of a target without markup, and what it shows; "" if the target is not an article."""
    kind, title = classify(target)
    return (title, shown_of(target)) if kind == ARTICLE and COMMENT not in target else ("", "")


class _Scanner:
    """The stack machine: `out` collects marked text of the innermost open template, link or table."""

    def __init__(self, text: str, title: str) -> None:
        self.text = text
        self.marked = Marked(title)
        self.out: list[str] = []
        self.stack: list[tuple[str, list[str], int, str]] = []  # kind or tag, out before, start, template's name
        self.depth = 0  # of templates
        self.closed: dict[str, bool] = {}
        self.dropped = 0  # characters read for tags that may be unclosed

    def scan(self) -> Marked:
        text, targets, position = self.text, self.marked.targets, 0
        for match in _TOKEN.finditer(text):
            start, end = match.span()
            if start < position:
                continue
            out = self.out
            out.append(text[position:start])
            position, kind = end, match.lastindex
            if kind == 1 or kind == 2:
                target, label = match.group(1, 2)
                title, shown = _article(target)
                if title and label != "":  # the most common case, so inlined
                    out.append(f"{OPEN}{len(targets)}{NUMBER_END}{label or shown}{CLOSE}")
                    targets.append(title)
                else:
                    self.link(target, label)
            elif kind == 3 or kind == 4:
                self.template(match[3], match[4])
            elif kind == 5:
                position = self.open_template(match[0], position)
            elif kind == 6:
                self.close_templates(match[0], start)
            elif kind == 7:
                self.open(_IN_LINK, match[0], position)
            elif kind == 8:
                self.close_links(match[0], start)
            elif kind == 11:
                self.tag(match[9], match[10].lower(), match[11], start)
            elif kind == 13:
                self.out.append("\n" + match[13])
                if _ODD_TABLE.match(text, position):
                    raise Unsure("markup in a table's attributes")
                self.open(_IN_TABLE, "{|", position)
            elif kind == 14:
                self.close_table(position)
            elif AUTOLINK.match(text, start):
                self.out.append("<")
            else:
                raise Unsure("odd tag")
        self.drop_open_tags(len(text))
        if self.stack:
            raise Unsure(f"unclosed {self.stack[-1][0]}")
        self.out.append(text[position:])
        self.marked.text = "".join(self.out)
        return self.marked

    def open(self, kind: str, opener: str, start: int, name: str = "") -> None:
        if len(opener) != 2:
            raise Unsure(f"run of {opener[0]}")
        if len(self.stack) > MAX_DEPTH:
            raise Unsure("deep nesting")
        self.stack.append((kind, self.out, start, name))
        self.out = []

    def drop_open_tags(self, at: int) -> None:
        """Pop tags that nothing after `at` can close: they are text, and text of a tag is not shown."""
        while self.stack and self.stack[-1][0][0] == "<":
            name = self.stack[-1][0][1:-1]
            if name in _OFTEN_UNCLOSED:
                raise Unsure(f"unclosed tag {name}")
            self.dropped += len(self.text) - at
            if self.dropped > _MAX_DROPPED:
                raise Unsure("many unclosed tags")
            level = 0
            for match in re.finditer(rf"<(/?){name}(?=[\s/>])([^<>]*)>", self.text[at:], re.IGNORECASE):
                level += -1 if match[1] else not match[2].endswith("/")
                if level < 0:
                    return
            self.stack.pop()

    def close(self, kind: str, at: int) -> tuple[str, int, str]:
        """Close the innermost template, link or table: its marked text, where it began, the template's name."""
        self.drop_open_tags(at)
        if not self.stack or self.stack[-1][0] != kind:
            raise Unsure(f"unopened {kind}")
        _, before, start, name = self.stack.pop()
        line = self.text.rfind("\n", start, at) + 1
        if line and self.text.startswith("=", line):
            raise Unsure("end in a heading")
        inside = "".join(self.out)
        self.out = before
        return inside, start, name

    def link(self, target: str, label: str | None) -> None:
        if classify(target)[0] == BAD and classify(target.replace(COMMENT, ""))[0] == BAD:
            raise Unsure("odd link target")
        self.out.append(self.marked.link(target, label, collect=not self.depth))

    def close_links(self, closer: str, end: int) -> None:
        if not self.stack:
            self.out.append(closer)  # nothing is open: plain text
            return
        if len(closer) % 2:
            raise Unsure("run of ]")
        for number in range(len(closer) // 2):
            inside, start, _ = self.close(_IN_LINK, end)
            target, pipe, label = inside.partition("|")
            kind = classify(target.replace(COMMENT, ""))[0]
            if (
                kind == BAD
                or not self.text.startswith(target, start)
                or not brackets_closed(self.text[start : end + 2 * number])
            ):
                raise Unsure("odd link target")
            if kind in (ARTICLE, TEXT) and (OPEN in label or ("[" in label and "//" in label)):
                raise Unsure("link in a link")
            self.out.append(self.marked.link(target, label if pipe else None, collect=not self.depth))

    def template(self, name: str, arguments: str | None) -> None:
        if not name.replace(COMMENT, "").strip():
            raise Unsure("odd template name")
        if arguments and "\n=" in arguments and "\n" not in arguments[arguments.rfind("\n=") + 1 :]:
            raise Unsure("end in a heading")
        if not self.depth:
            self.marked.template(name)
        shown = None
        if is_inline(name):
            shown = render(name, [] if arguments is None else arguments.split("|"), self.marked.title)
        self.out.append(HOLE if shown is None else shown)

    def open_template(self, opener: str, at: int) -> int:
        name = _NAME.match(self.text, at)
        if name is None:  # a function whose argument is a template: `{{formatnum:{{x}}}}`
            name = _FUNCTION_NAME.match(self.text, at)
            if name is not None and not _is_function(name[1]):
                name = None
        if name is None or not name[1].replace(COMMENT, "").strip():
            raise Unsure("odd template name")
        if not self.depth:
            self.marked.template(name[1])
        self.open(_IN_TEMPLATE, opener, at, name[1])
        self.depth += 1
        return name.end(1)

    def close_templates(self, closer: str, end: int) -> None:
        if not self.stack:
            self.out.append(closer)
            return
        if len(closer) % 2:
            raise Unsure("run of }")
        for number in range(len(closer) // 2):
            inside, start, name = self.close(_IN_TEMPLATE, end)
            self.depth -= 1
            inner = self.text[start : end + 2 * number]
            if not brackets_closed(inner) or (not self.depth and _has_single_braces(inner)):
                raise Unsure("unbalanced markup in a template")
            shown = None
            if is_inline(name):
                if _PIPE_IN_BRACKETS.search(inside):
                    raise Unsure("pipe in an external link")
                rest, *parts = inside.split("|")
                if HOLE not in rest and OPEN not in rest:
                    shown = render(name + rest, parts, self.marked.title)
            self.out.append(HOLE if shown is None else shown)

    def close_table(self, at: int) -> None:
        self.close(_IN_TABLE, at)
        self.out.append(HOLE)

    def tag(self, slash: str, name: str, attributes: str, start: int) -> None:
        if name in VOID:
            self.out.append(f"<{name}>")
            return
        if name in TABLE and slash and f"<{name}" not in self.text:
            return  # it closes nothing and shows nothing
        if name not in STYLE and name not in BLOCK:
            raise Unsure(f"tag {name}")
        if attributes.count('"') % 2:
            raise Unsure("odd tag")
        if slash:
            if not self.stack or self.stack[-1][0] != f"<{name}>":
                raise Unsure(f"unopened tag {name}")
            self.stack.pop()
            self.out.append(f"</{name}>")
            return
        self.out.append(f"<{name}>")
        if attributes.endswith("/"):
            return
        if name in _OFTEN_UNCLOSED and not self.is_closed(name):
            inside_others = any(kind not in (_IN_TABLE, "<ol>", "<ul>") for kind, *_ in self.stack)
            if inside_others or (self.stack and self.text[start - 1] != "\n"):
                raise Unsure(f"unclosed tag {name}")
            return
        if len(self.stack) > MAX_DEPTH:
            raise Unsure("deep nesting")
        self.stack.append((f"<{name}>", self.out, 0, ""))

    def is_closed(self, name: str) -> bool:
        """Tell whether such a tag is closed anywhere in the page."""
        if name not in self.closed:
            self.closed[name] = re.search(rf"</{name}[\s>]", self.text, re.IGNORECASE) is not None
        return self.closed[name]


def _has_single_braces(text: str) -> bool:
    text = text.replace("{{", "").replace("}}", "")
    return text.count("{") != text.count("{|") or text.count("}") != text.count("|}")


def _is_function(name: str) -> bool:
    return name[0] == "#" or name[:-1].lower() in FUNCTIONS


def _mark(text: str, title: str) -> Marked:
    """Read prepared wikitext as marked text; raises Unsure."""
    if "<" in text:
        text = without_opaque(text)
    marked = _Scanner("\n" + text, title).scan()
    marked.text = marked.text[1:]
    return marked
