"""The spelling under which a name is kept: its tokens joined by one space, as they stand in text."""

from __future__ import annotations

import re

from crossner_core.tokenize import words_of

# Letters and digits that the tokeniser always keeps together; a hyphen between two of them too.
_RUN = r"[0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0391-\u03a1\u03a3-\u03ce\u0410-\u044f]+"
_PLAIN = re.compile(rf"{_RUN}(?:-{_RUN})*(?: {_RUN}(?:-{_RUN})*)*")


def key_of(name: str) -> str:
    """Return the key of a name: `Wham!` → `Wham !`; a curly apostrophe counts as a straight one."""
    if _PLAIN.fullmatch(name):
        return name
    return " ".join(words_of(name)).replace("’", "'")
