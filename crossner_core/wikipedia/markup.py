"""What both readers of wikitext share: markers, names of namespaces and tags, and the form of links.

A reader turns wikitext into *marked text*: templates, references, tables and files are removed, links are enclosed in
markers, and everything that works line by line (headings, lists, quotes, tags, entities) is still there. `blocks` makes
paragraphs from marked text, the same way for both readers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from html import unescape

# Control characters are not allowed in XML, so a dump never holds the markers; `prepare` removes them elsewhere.
OPEN, CLOSE, NUMBER_END = "\x01", "\x02", "\x03"  # a link: OPEN number NUMBER_END text CLOSE
HOLE = "\x04"  # something was dropped here
COMMENT = "\x06"  # a comment was here; it separates nothing
MISSING = "\x08"  # a formula was here that cannot be written as text: its sentence makes no sense without it
NOTHING = "\x07"  # nothing is shown, but it separates what is around it (`[[bus]]<nowiki/>es`)

_CONTROL = bytes(code for code in range(32) if chr(code) not in "\t\n\r")


class Unreadable(Exception):
    """A page that no reader can finish in bounded time: the builder counts it as skipped; the message is the reason."""


def names(text: str, separator: str | None = None) -> frozenset[str]:
    """Return the set of names written as one text."""
    return frozenset(text.split(separator))


def prepare(text: str) -> str:
    """Unify line ends and remove control characters, which wikitext cannot hold."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    # as bytes: several times faster than a pattern over the text
    raw = text.encode("utf-8", "surrogatepass")
    plain = raw.translate(None, _CONTROL)
    return text if len(plain) == len(raw) else plain.decode("utf-8", "surrogatepass")


# Tags whose content is never shown as running text.
HIDDEN = names(
    "ref references gallery timeline imagemap pre source syntaxhighlight score graph hiero poem categorytree inputbox "
    "section templatedata includeonly mapframe maplink templatestyles indicator"
)
FORMULA = frozenset(("math", "chem", "ce"))
# Tags that only style the text inside them.
STYLE = names(
    "small big sub sup i b em strong span font u s del ins strike abbr cite code tt kbd samp var dfn q mark bdi bdo "
    "onlyinclude noinclude nobr time data rp rt rb ruby"
)
BLOCK = names("div p center blockquote ul ol li dl dt dd h1 h2 h3 h4 h5 h6 section article") - HIDDEN
VOID = frozenset(("br", "hr", "wbr"))
TABLE = names("table tr td th caption tbody thead tfoot")

_FILE = frozenset(("file", "image", "media"))
_CATEGORY = "category"
_OTHER_NAMESPACES = names(
    "user|wikipedia|wp|project|mediawiki|template|tm|help|portal|book|draft|timedtext|module|special|education program|"
    "gadget|gadget definition|topic|talk|user talk|wikipedia talk|wt|project talk|file talk|image talk|mediawiki talk|"
    "template talk|help talk|category talk|portal talk|book talk|draft talk|timedtext talk|module talk|"
    # sister projects and other interwiki prefixes: shown as text, but not pages of this wiki
    "wikt|wiktionary|w|s|wikisource|q|wikiquote|b|wikibooks|n|wikinews|v|wikiversity|voy|wikivoyage|species|"
    "wikispecies|c|commons|d|wikidata|m|meta|metawikipedia|mw|mediawikiwiki|foundation|wmf|phab|bugzilla|doi|arxiv|"
    "rfc|oeis|iarchive|google|imdbname|imdbtitle|hdl|tools|toollabs|toolforge|outreach|incubator|betawiki|"
    "translatewiki|wikia|wmch|wmde|wmuk|gerrit|git|mail|otrs|ticket|hoopoes|drae|sep11|dbdump|freenode|irc",
    "|",
)
# Language editions: `[[fr:Art]]` is listed beside the page and shows nothing.
_LANGUAGES = names(
    "aa ab ace ady af ak als am an ang ar arc arz as ast av ay az azb ba bar bat-smg bcl be be-tarask be-x-old bg "
    "bh bi bjn bm bn bo bpy br bs bug bxr ca cbk-zam cdo ce ceb ch cho chr chy ckb co cr crh cs csb cu cv cy da "
    "de diq dsb dv dz ee el eml en eo es et eu ext fa ff fi fiu-vro fj fo fr frp frr fur fy ga gag gan gd gl glk "
    "gn gom got gu gv ha hak haw he hi hif ho hr hsb ht hu hy hz ia id ie ig ii ik ilo io is it iu ja jbo jv ka "
    "kaa kab kbd kg ki kj kk kl km kn ko koi kr krc ks ksh ku kv kw ky la lad lb lbe lez lg li lij lmo ln lo lrc "
    "lt ltg lv mai map-bms mdf mg mh mhr mi min mk ml mn mo mr mrj ms mt mus mwl my myv mzn na nah nap nds nds-nl "
    "ne new ng nl nn no nov nrm nso nv ny oc olo om or os pa pag pam pap pcd pdc pfl pi pih pl pms pnb pnt ps pt "
    "qu rm rmy rn ro roa-rup roa-tara ru rue rw sa sah sc scn sco sd se sg sh si simple sk sl sm sn so sq sr srn "
    "ss st stq su sv sw szl ta te tet tg th ti tk tl tn to tpi tr ts tt tum tw ty tyv udm ug uk ur uz ve vec vep "
    "vi vls vo wa war wo wuu xal xh xmf yi yo za zea zh zh-classical zh-min-nan zh-yue zu"
)

ARTICLE, TEXT, GONE, FILE, IN_CATEGORY, BAD = range(6)
_TARGET_BAD = re.compile(r"[\x00-\x1f\[\]{}<>|]|://|^\.{1,2}(?:/|$)")
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
_SPACES = re.compile(r"[ _\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]")


def title_of(raw: str) -> str:
    """Write a title as the wiki stores it: single spaces, first letter upper-case."""
    title = _SPACES.sub(" ", _INVISIBLE.sub("", raw)).strip()
    return title[:1].upper() + title[1:] if title[:1] not in "ßŉǰ" else title


@lru_cache(maxsize=1 << 16)
def classify(raw: str) -> tuple[int, str]:
    """Classify a link's target: its kind, and the title of the article or category it points to."""
    target = unescape(raw) if "&" in raw else raw
    if _TARGET_BAD.search(target):
        return BAD, ""
    if "%" in target:
        target = _percent_decoded(target)
        if _TARGET_BAD.search(target):
            return BAD, ""
    target = target.strip(" _\t\u00a0")
    shown = target.startswith(":")
    target = target.lstrip(": _") if shown else target
    page = target.partition("#")[0]
    if not page.strip(" _"):
        return TEXT, ""
    prefix, colon, rest = page.partition(":")
    if not colon:
        return ARTICLE, title_of(page)
    name = _SPACES.sub(" ", prefix).strip().lower()
    if name in _FILE:
        return (TEXT if shown or name == "media" else FILE), ""
    if name == _CATEGORY:
        return (TEXT, "") if shown or not rest.strip(" _") else (IN_CATEGORY, title_of(rest))
    if name in _OTHER_NAMESPACES:
        return TEXT, ""
    if name in _LANGUAGES:
        return (TEXT if shown else GONE), ""
    return ARTICLE, title_of(page)


def _percent_decoded(target: str) -> str:
    raw = _PERCENT.sub(lambda match: chr(int(match[1], 16)), target)
    try:
        return raw.encode("latin-1").decode()
    except UnicodeError:
        return target


_BRACKETED = re.compile(r"^(.*\S)\s*\([^()]*\)$", re.S)


def shown_of(target: str) -> str:
    """Return what an unpiped link shows."""
    return target.strip().removeprefix(":").strip()


def _pipe_trick(target: str) -> str:
    """Return what `[[Help:Page (kind), place|]]` shows: `Page`."""
    target = shown_of(target)
    prefix, colon, rest = target.partition(":")
    if colon and rest and prefix.strip().lower() in _OTHER_NAMESPACES | _FILE | _LANGUAGES | {_CATEGORY}:
        target = rest
    if match := _BRACKETED.match(target):
        return match[1].strip()
    return target.partition(", ")[0].strip()


@dataclass(frozen=True, slots=True, order=True)
class CharLink:
    """A link over characters `[start, end)` of a paragraph's text, with the title it points to (no fragment)."""

    start: int
    end: int
    target: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text of a page: one block of prose, with the heading it stands under ("" before the first)."""

    section: str
    text: str
    links: tuple[CharLink, ...]


@dataclass(frozen=True, slots=True)
class Extract:
    """What was extracted from one page's wikitext.

    `templates` are the titles of the templates used outside other templates, in order, and `categories` the titles
    of the categories named in the text (both without their namespace). `parser` is the reader, `fast` or
    `fallback`, and `reason` why it was not the fast one.
    """

    paragraphs: tuple[Paragraph, ...]
    categories: tuple[str, ...]
    templates: tuple[str, ...]
    parser: str = "fast"
    reason: str = ""

    @property
    def text(self) -> str:
        """The paragraphs joined by blank lines; the offsets of sentences are relative to it."""
        return "\n\n".join(paragraph.text for paragraph in self.paragraphs)


@dataclass(slots=True)
class Marked:
    """A page as marked text, with what its link numbers stand for."""

    title: str
    text: str = ""
    targets: list[str] = field(default_factory=list)
    categories: dict[str, None] = field(default_factory=dict)
    templates: dict[str, None] = field(default_factory=dict)

    def link(self, target: str, label: str | None, *, collect: bool) -> str:
        """Return the marked form of a link; with `collect` (not inside templates) its category is noted."""
        target = target.replace(COMMENT, "")
        kind, title = classify(target)
        if kind in (FILE, GONE):
            return HOLE
        if kind == IN_CATEGORY:
            if collect:
                self.categories[title] = None
            return HOLE
        if label is None:
            label = shown_of(target)
        elif not label.strip():
            label = _pipe_trick(target) if not label else ""
        if "\n" in label:
            label = label.replace("\n", " ")
        if kind != ARTICLE or OPEN in label:
            return label
        self.targets.append(title)
        return f"{OPEN}{len(self.targets) - 1}{NUMBER_END}{label}{CLOSE}"

    def template(self, name: str) -> None:
        """Note a template used outside others; parser functions and variables are not templates."""
        name = name.replace(COMMENT, "").strip()
        if name[:9].lower() == "template:":
            name = name[9:]
        prefix, colon, _ = name.partition(":")
        if name and name[0] != "#" and not (colon and prefix.strip().lower() in FUNCTIONS) and name not in VARIABLES:
            self.templates[title_of(name)] = None


FUNCTIONS = names(
    "lc uc lcfirst ucfirst formatnum padleft padright plural grammar urlencode anchorencode fullurl localurl filepath "
    "displaytitle defaultsort defaultsortkey defaultcategorysort ns nse int subst safesubst msg msgnw raw gender "
    "numberofarticles pagesincategory pagesize protectionlevel"
)
VARIABLES = names(
    "PAGENAME FULLPAGENAME BASEPAGENAME SUBPAGENAME NAMESPACE CURRENTYEAR CURRENTMONTH CURRENTMONTHNAME CURRENTDAY "
    "CURRENTDAY2 CURRENTTIME LOCALYEAR NUMBEROFARTICLES NUMBEROFUSERS SITENAME SERVER !"
)

_PROTECTED = str.maketrans({c: f"&#{ord(c)};" for c in "<>[]{}|'=*:_!"} | {"\n": " "})


def protected(text: str) -> str:
    """Escape the content of `nowiki` so that nothing in it is markup; its entities stay entities."""
    return NOTHING + text.translate(_PROTECTED) + NOTHING


_SYMBOLS = dict(
    pair.split("=")
    for pair in sorted(
        names(
            "alpha=α beta=β gamma=γ delta=δ epsilon=ε varepsilon=ε zeta=ζ eta=η theta=θ iota=ι kappa=κ lambda=λ mu=μ "
            "nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ phi=φ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ "
            "Xi=Ξ Pi=Π Sigma=Σ Phi=Φ Psi=Ψ Omega=Ω times=× cdot=· le=≤ leq=≤ ge=≥ geq=≥ ne=≠ neq=≠ approx=≈ equiv=≡ "
            "pm=± infty=∞ to=→ rightarrow=→ in=∈ notin=∉ subset=⊂ subseteq=⊆ cup=∪ cap=∩ forall=∀ exists=∃ neg=¬ "
            "lnot=¬ land=∧ wedge=∧ lor=∨ vee=∨ ldots=… dots=… dotsc=… dotsb=… cdots=… "
            "degree=° circ=° partial=∂ nabla=∇ "
            "ell=ℓ sum=∑ log=log ln=ln exp=exp sin=sin cos=cos tan=tan max=max min=min sim=∼ propto=∝ "
            "prime=′ ast=* hbar=ħ"
        )
    )
)
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_FONT = re.compile(r"\\(?:math(?:rm|bf|it|cal|bb)|text(?:rm|it)?|operatorname|mbox)\s*\{([^{}\\]*)\}")
_SPACE = re.compile(r"\\[,;:! ]|\\q?quad(?![A-Za-z])|\\(?:displaystyle|textstyle|left|right)(?![A-Za-z])|~")
_INDEX = re.compile(r"([_^])\{([\w+−-]{1,8})\}")
_PLAIN = re.compile(r"[^\\{}$&#%\n]{1,60}")


def formula(text: str) -> str:
    """Return a formula as text if it is simple enough to read, otherwise MISSING."""
    plain = _SPACE.sub(" ", text.strip())
    plain = _FONT.sub(r"\1", plain)
    plain = _COMMAND.sub(lambda match: _SYMBOLS.get(match[1], match[0]), plain)
    plain = " ".join(_INDEX.sub(r"\1\2", plain).split())
    return protected(plain) if _PLAIN.fullmatch(plain) else MISSING
