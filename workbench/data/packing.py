"""Files as one download: their suffix, the zip around several, and a summary of what they could not hold."""

from __future__ import annotations

import io
import re
import unicodedata
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from crossner_core.formats.base import NamedFile, get_format

_MOST_BYTES = 200  # a name may have 255; the format adds an ending
_RESERVED = {"CON", "PRN", "AUX", "NUL", *(f"{port}{number}" for port in ("COM", "LPT") for number in range(1, 10))}


def packed(files: Sequence[NamedFile], format: str) -> bytes:
    """Return written files as one: a zip if the format writes each document as files of its own."""
    if len(files) == 1 and not _in_zip(format):
        return files[0][1]
    return zipped({_inside(name): data for name, data in files})


def file_suffix(format: str) -> str:
    """Return the suffix of what is downloaded in a format."""
    return ".zip" if _in_zip(format) else get_format(format).suffixes[0]


def _in_zip(format: str) -> bool:
    return get_format(format).by_document and not get_format(format).one_file


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return files as a zip, which the same files make alike at any time: its entries have no date of their own."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def in_numbers(losses: Mapping[str, int]) -> str:
    """List what a format could not hold, by kind and number."""
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(losses.items()))


def safe_paths(names: Sequence[str]) -> list[str]:
    """Return paths that any system can hold, each only once, whatever case it folds; those that are so already stay."""
    taken: set[str] = set()
    paths = []
    for name in names:
        parts = [_safe(part) for part in re.split(r"[/\\]", name) if part not in ("", ".", "..")]
        path = free = "/".join(parts) or "document"
        number = 1
        while (folded := unicodedata.normalize("NFKC", free).casefold()) in taken:
            number += 1
            free = f"{path}-{number}"
        taken.add(folded)
        paths.append(free)
    return paths


def _safe(part: str) -> str:
    """Return a part of a path without what some system gives a meaning, cut to what each can hold."""
    kept = "".join("_" if letter in '<>:"|?*' or not letter.isprintable() else letter for letter in part)
    kept = kept.encode()[:_MOST_BYTES].decode("utf-8", "ignore").strip(" ").rstrip(".") or "_"
    return f"_{kept}" if kept.partition(".")[0].upper() in _RESERVED else kept


def _inside(name: str) -> str:
    """Return the path of a document's file in a zip; it never leads out of the folder where that is unpacked."""
    return "/".join(part for part in PurePosixPath(name).parts if part not in ("..", "/"))
