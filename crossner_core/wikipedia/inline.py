"""Templates that are part of a sentence, rendered as far as a sentence needs it.

All other templates are dropped. Arguments come as marked text; a result may hold tags and entities. Anything a
template shows in addition (a conversion, a footnote, a link to a list of signs) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from crossner_core.wikipedia.markup import COMMENT, names

Arguments = tuple[list[str], Mapping[str, str]]
Rule = Callable[[list[str], Mapping[str, str]], str | None]
_NAMED = re.compile(r"\s*([\w -]{1,30}?)\s*=")


def arguments(parts: list[str]) -> Arguments:
    """Split a template's parts, name left out, into positional and named ones; `2=x` is positional."""
    positional: dict[int, str] = {}
    named: dict[str, str] = {}
    count = 0
    for part in parts:
        match = _NAMED.match(part)
        if match is None:
            count += 1
            positional[count] = part.strip()
        elif match[1].isascii() and match[1].isdigit() and len(match[1]) < 3:
            positional[int(match[1])] = part[match.end() :].strip()
        else:
            named[match[1].lower()] = part[match.end() :].strip()
    return [positional.get(number, "") for number in range(1, max(positional, default=0) + 1)], named


def _constant(text: str) -> Rule:
    return lambda args, named: text


def _nth(number: int) -> Rule:
    return lambda args, named: args[number - 1] or None if len(args) >= number else None


def _last(args: list[str], named: Mapping[str, str]) -> str | None:
    return args[-1] if len(args) > 1 else None


def _before(prefix: str) -> Rule:
    return lambda args, named: prefix + args[0] if args and args[0] else None


def _joined(args: list[str], named: Mapping[str, str]) -> str | None:
    return "".join(args) or None


def _block(args: list[str], named: Mapping[str, str]) -> str | None:
    text = named.get("text") or named.get("quote") or (args[0] if args else "")
    return f"\n\n{text}\n\n" if text else None


_UNITS = {
    "sqmi": "sq mi", "sqkm": "km²", "km2": "km²", "m2": "m²", "ft2": "sq ft", "sqft": "sq ft", "mi2": "sq mi",
    "sqm": "m²", "cm2": "cm²", "m3": "m³", "km3": "km³", "cm3": "cm³", "cuft": "cu ft", "cumi": "cu mi", "C": "°C",
    "F": "°F", "K": "K", "C-change": "°C", "F-change": "°F", "foot": "ft", "feet": "ft", "inch": "in", "mile": "mi",
    "miles": "mi", "acre": "acres", "kph": "km/h", "nmi": "nmi", "e6acre": "million acres", "e6ha": "million ha",
    "lbs": "lb", "LT": "long tons", "ST": "short tons", "PD/sqmi": "per sq mi", "PD/km2": "per km²",
}  # fmt: skip
_BETWEEN = {
    "-": "–", "–": "–", "to": " to ", "and": " and ", "or": " or ", "by": " by ", "x": " × ", "×": " × ",
    "*": " × ", "to(-)": " to ", "and(-)": " and ", "+/-": " ± ", "±": " ± ",
}  # fmt: skip
_NUMBER = re.compile(r"[-−+]?[\d.,/ ⁄+]*\d[\d.,/⁄]*(?:e\d+)?")


def _grouped(number: str) -> str:
    """Add thousands separators to a whole number of four digits or more."""
    number = number.strip().replace("-", "−") if number.strip().startswith("-") else number.strip()
    head, dot, tail = number.partition(".")
    sign = head[:1] if head[:1] in "−+" else ""
    digits = head[len(sign) :]
    if digits.isascii() and digits.isdigit() and len(digits) > 3:
        head = f"{sign}{int(digits):,}"
    return head + dot + tail


def _convert(args: list[str], named: Mapping[str, str]) -> str | None:
    """Show the quantity as written, without its conversion."""
    shown, position = "", 0
    while position + 1 < len(args) and _NUMBER.fullmatch(args[position]):
        shown += _grouped(args[position])
        if (between := _BETWEEN.get(args[position + 1])) is not None:
            shown, position = shown + between, position + 2
            continue
        unit = _UNITS.get(args[position + 1], args[position + 1])
        hyphen = named.get("adj") in ("on", "mid") and unit[:1].isalpha()
        shown, position = f"{shown}{'-' if hyphen else '&nbsp;'}{unit}", position + 2
        if not (
            position + 1 < len(args)
            and args[position - 1] in ("ft", "lb", "st", "mi", "yd")
            and args[position + 1] in _SMALLER
        ):
            return shown
        shown += "&nbsp;"
    return None


_SMALLER = ("in", "oz", "lb", "ft", "yd")


_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def _as_of(args: list[str], named: Mapping[str, str]) -> str | None:
    if alt := named.get("alt"):
        return alt
    if not args or not args[0]:
        return None
    month = args[1] if len(args) > 1 else ""
    if month.isascii() and month.isdigit() and 1 <= int(month) <= 12:
        month = _MONTHS[int(month) - 1]
    day = args[2] if len(args) > 2 else ""
    date = f"{month} {day}, {args[0]}" if day and named.get("df", "").upper() == "US" else f"{day} {month} {args[0]}"
    word = "Since" if named.get("since") else "As of"
    return f"{word.lower() if named.get('lc') else word} {date.strip()}"


def _fraction(args: list[str], named: Mapping[str, str]) -> str | None:
    if not args or not all(args):
        return None
    whole = f"{args[0]}&nbsp;" if len(args) == 3 else ""
    return f"{whole}{args[-2] if len(args) > 1 else 1}/{args[-1]}"


def _value(args: list[str], named: Mapping[str, str]) -> str | None:
    if not args or not args[0]:
        return None
    power = f"×10<sup>{named['e']}</sup>" if named.get("e") else ""
    unit = named.get("u") or named.get("ul") or ""
    return f"{_grouped(args[0])}{power}{'&nbsp;' if unit else ''}{unit}"


def _power(args: list[str], named: Mapping[str, str]) -> str | None:
    return f"×10<sup>{args[0]}</sup>" if args and args[0] else None


def _chemical(args: list[str], named: Mapping[str, str]) -> str | None:
    parts = (f"<sup>{part}</sup>" if re.fullmatch(r"\d*[-+−]", part) else part for part in args)
    return "".join(parts) or None


def _nihongo(args: list[str], named: Mapping[str, str]) -> str | None:
    if not args:
        return None
    inside = ", ".join(part for part in args[1:3] if part)
    return f"{args[0]} ({inside})" if args[0] and inside else args[0] or inside or None


def _circa(args: list[str], named: Mapping[str, str]) -> str | None:
    return " – ".join(f"c.&nbsp;{part}" for part in args if part) or "c."


def _reign(args: list[str], named: Mapping[str, str]) -> str | None:
    return "r.&nbsp;" + "–".join(part for part in args if part) if any(args) else None


def _ship(prefix: str) -> Rule:
    return lambda args, named: f"{prefix}&nbsp;''{args[0]}''" if args and args[0] else None


def _any_ship(args: list[str], named: Mapping[str, str]) -> str | None:
    return f"{args[0]} ''{args[1]}''".strip() if len(args) > 1 and args[1] else None


def _other_language(args: list[str], named: Mapping[str, str]) -> str | None:
    """Show a link to a page of another language's edition as its text."""
    if not args:
        return None
    if named.get("lt"):
        return named["lt"]
    old = re.fullmatch(r"[a-z]{2,3}(?:-[a-z-]+)?", args[0]) is not None
    return (next((part for part in reversed(args[1:4]) if part), None) if old else args[0]) or None


def _gauge(args: list[str], named: Mapping[str, str]) -> str | None:
    match = re.fullmatch(r"([\d.]+)\s*(mm|m|in)", args[0]) if args else None
    return f"{_grouped(match[1])}&nbsp;{match[2]}" if match else None


def _old_style(args: list[str], named: Mapping[str, str]) -> str | None:
    return f"{args[0]} [O.S. {args[2]}] {args[1]}".strip() if len(args) > 2 else None


def _verse(args: list[str], named: Mapping[str, str]) -> str | None:
    return " ".join(part for part in args[:2] if part) or None


def _accidental(args: list[str], named: Mapping[str, str]) -> str | None:
    return {"flat": "♭", "b": "♭", "sharp": "♯", "#": "♯", "natural": "♮"}.get(args[0]) if args else None


_LANGUAGE_NAMES = dict(
    pair.split("=")
    for pair in sorted(
        names(
            "= af=Afrikaans ar=Arabic az=Azerbaijani be=Belarusian ber=Berber bg=Bulgarian bn=Bengali bs=Bosnian "
            "ca=Catalan cs=Czech cy=Welsh da=Danish de=German el=Greek eo=Esperanto es=Spanish et=Estonian "
            "eu=Basque fa=Persian fi=Finnish fr=French ga=Irish gd=Scottish_Gaelic gl=Galician grc=Ancient_Greek "
            "grc-gre=Ancient_Greek he=Hebrew hi=Hindi hr=Croatian hu=Hungarian hy=Armenian id=Indonesian "
            "is=Icelandic it=Italian ja=Japanese ka=Georgian kk=Kazakh ko=Korean ku=Kurdish la=Latin "
            "lb=Luxembourgish lt=Lithuanian lv=Latvian mk=Macedonian mn=Mongolian ms=Malay mt=Maltese nl=Dutch "
            "no=Norwegian pa=Punjabi pl=Polish ps=Pashto pt=Portuguese ro=Romanian ru=Russian rus=Russian "
            "sa=Sanskrit sk=Slovak sl=Slovene sq=Albanian sr=Serbian sv=Swedish sw=Swahili ta=Tamil te=Telugu "
            "tg=Tajik th=Thai tk=Turkmen tr=Turkish uk=Ukrainian ur=Urdu uz=Uzbek vi=Vietnamese yi=Yiddish "
            "zh=Chinese"
        )
    )
)


def _language(code: str) -> Rule:
    name = _LANGUAGE_NAMES.get(code, "").replace("_", " ")

    def rule(args: list[str], named: Mapping[str, str]) -> str | None:
        text = args[0] if args else ""
        return (f"{name}: {text}" if name and named.get("label") != "none" else text) or None

    return rule


def _table() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}

    def add(titles: str, rule: Rule) -> None:
        rules.update(dict.fromkeys(titles.split("|"), rule))

    for first in (
        "nowrap|nobr|nobreak|small|smaller|big|large|larger|resize|midsize|em|strong|var|mvar|math|mono|code|key",
        "sc|sc1|smallcaps|small caps|abbr|tooltip|hover title|linktext|not a typo|notatypo|typo|sic|proper name",
        "visible anchor|vanchor|unicode|polytonic|hebrew|nq|nastaliq|script/arabic|script/hebrew|ipa|vr|nobold",
        "noitalic|normal|italics|i|bold|center|red|flag|flagcountry|flagu|nts|num|number|no wrap",
    ):
        add(first, _nth(1))
    add("transl|translit|transliteration", _last)
    add("lang|rtl-lang|script|color|font color|colour|wikt-lang|langx", _nth(2))
    add("–|ndash|en dash|endash", _constant("–"))
    add("—|mdash|em dash|emdash|mdashb", _constant("—"))
    add("snd|snds|spnd|spaced ndash|spaced en dash|sndash|dash|spaced en dash space", _constant("&nbsp;– "))
    add("spaced mdash|spaced em dash|smd", _constant("&nbsp;— "))
    add("nbsp|spaces|space|thinsp|hairsp|pad|nnbsp|thin space|hair space|zwj|px1|px2", _constant("&nbsp;"))
    add("shy|zwsp|wbr", _constant(""))
    add("'|apostrophe", _constant("&#39;"))
    add("'s|s", _constant("&#39;s"))
    add("' \"|'\"", _constant('&#39;"'))
    add("\" '|\"'", _constant('"&#39;'))
    add('-"', _constant('"'))
    add("-'", _constant("&#39;"))
    add("=", _constant("="))
    add("·|middot|dot|•|bullet", _constant(" · "))
    add("okina|'okina", _constant("ʻ"))
    add("eqm", _constant("⇌"))
    add("chem|chem2", _chemical)
    add("frac|sfrac|fraction", _fraction)
    add("val", _value)
    add("e|esp", _power)
    add("convert|cvt|conv", _convert)
    add("as of", _as_of)
    add("circa|c.|ca.", _circa)
    add("floruit|fl.", _before("fl.&nbsp;"))
    add("reign|r.", _reign)
    add("us$|usd", _before("US$"))
    add("a$|aud", _before("A$"))
    add("£|gbp", _before("£"))
    add("€|euro|eur", _before("€"))
    add("¥|jpy|yen", _before("¥"))
    add("₹|inr|indian rupee", _before("₹"))
    add("us patent", _before("U.S. Patent "))
    add("angbr|angle bracket", lambda args, named: f"⟨{args[0]}⟩" if args and args[0] else None)
    add("nihongo|nihongo2", _nihongo)
    add("music", _accidental)
    add("ill|interlanguage link|interlanguage link multi|illm|link-interwiki", _other_language)
    add("railgauge|rail gauge|track gauge", _gauge)
    add("oldstyledate", _old_style)
    add("bibleref|bibleref2|bibleverse|bibleverse-nb", _verse)
    add("gaps|joined", _joined)
    add("ship", _any_ship)
    add("sub", lambda args, named: "<sub>" + args[0] + "</sub>" if args and args[0] else None)
    add("sup", lambda args, named: "<sup>" + args[0] + "</sup>" if args and args[0] else None)
    add("quote|blockquote|cquote|quotation|bquote|centered pull quote|long quotation", _block)
    for prefix in sorted(names("USS HMS SS RMS HMCS HMAS MV MS RV HMT USNS USCGC SMS INS HNLMS")):
        add(prefix.lower(), _ship(prefix))
    return rules


_RULES = _table()
_FUNCTIONS: dict[str, Callable[[str], str]] = {
    "formatnum": _grouped,
    "lc": str.lower,
    "uc": str.upper,
    "lcfirst": lambda text: text[:1].lower() + text[1:],
    "ucfirst": lambda text: text[:1].upper() + text[1:],
}
_TITLE = frozenset(("PAGENAME", "FULLPAGENAME", "BASEPAGENAME", "SUBPAGENAME"))


def is_inline(name: str) -> bool:
    """Tell whether a template of this name may leave text; others need no arguments read."""
    name = _key(name)
    return name in _RULES or name.startswith("lang-") or ":" in name or name.upper() in _TITLE


def _key(name: str) -> str:
    return name.replace(COMMENT, "").replace("_", " ").strip().lower().removeprefix("template:").strip()


def render(name: str, parts: list[str], title: str) -> str | None:
    """Return the text of a template in its sentence, None if it is dropped; `parts` are its arguments as written."""
    key = _key(name)
    rule = _RULES.get(key)
    if rule is None and key.startswith("lang-"):
        rule = _language(key[5:])
    if rule is not None:
        return rule(*arguments(parts))
    if key.upper() in _TITLE:
        return title or None
    prefix, colon, rest = name.replace(COMMENT, "").strip().partition(":")
    function = _FUNCTIONS.get(prefix.strip().lower())
    return (function(rest.strip()) or None) if colon and function else None
