"""Several ES modules and a stylesheet as one script: there is no build step."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

_IMPORT = re.compile(r"^import\s[^;]*?from\s+\"\.{1,2}/[\w./]+\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*(?://[^\n]*|/\*\*.*?\*/)\n", re.MULTILINE | re.DOTALL)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)


def bundled(modules: Iterable[Path], stylesheet: str) -> str:
    """Join modules, each after those it uses, without imports, comments and indentation; `STYLE` is the stylesheet.

    They share one scope, so no two may have the same name at their top level.
    """
    sources = [f"const STYLE = {json.dumps(stylesheet)};"]
    for module in modules:
        source = module.read_text(encoding="utf-8")
        for pattern in (_IMPORT, _EXPORT, _COMMENT, _INDENT):
            source = pattern.sub("", source)
        sources.append(source)
    return "\n".join(sources)
