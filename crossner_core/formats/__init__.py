"""Corpus formats: a file a format, reader and writer side by side; a new module here registers itself."""

from __future__ import annotations

import importlib
import pkgutil

from crossner_core.formats.base import (
    Format,
    Layout,
    Parsed,
    Problem,
    ReadOptions,
    Record,
    format_ids,
    get_format,
    layout_from_dict,
    open_file,
    read_bytes,
    write,
)

_HELPERS = {"base", "source", "sniff", "columns", "json_layouts"}

for _module in pkgutil.iter_modules(__path__):
    if _module.name not in _HELPERS:
        importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Format",
    "Layout",
    "Parsed",
    "Problem",
    "ReadOptions",
    "Record",
    "format_ids",
    "get_format",
    "layout_from_dict",
    "open_file",
    "read_bytes",
    "write",
]
