"""The files of a compiled gazetteer, written beside and put in place whole."""

from __future__ import annotations

import datetime
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from crossner_core.errors import BadInput, StorageError
from crossner_core.gazetteer.collecting import Tables
from crossner_core.gazetteer.compiled import BITS, CLASSES, ENTITIES, FILES, SURFACES
from crossner_core.gazetteer.manifest import FILE, GazetteerManifest, Origin, SourceFile


def write_tables(
    tables: Tables,
    out: Path,
    *,
    name: str,
    origin: Origin,
    counts: Mapping[str, int],
    skipped: Mapping[str, int],
    replace: bool,
) -> GazetteerManifest:
    """Write the files into a new folder and its manifest last; StorageError if the disk refuses."""
    sizes = np.diff(tables.arrays["entry_starts"])
    every = {
        **counts,
        "surfaces": len(tables.surfaces),
        "ambiguous surfaces": int(np.count_nonzero(sizes > 1)),
        "entries": len(tables.arrays["entry_entities"]),
        "entities": len(tables.entities),
        "classes": len({one for names in tables.classes.sets for one in names}),
    }
    try:
        with _put_in_place(out, replace) as folder:
            tables.surfaces.save(str(folder / SURFACES))
            tables.entities.save(str(folder / ENTITIES))
            tables.classes.write(folder / CLASSES)
            bits = dict(zip(BITS, (tables.bits.names, tables.bits.beginnings), strict=True))
            for kept, values in (bits | dict(tables.arrays)).items():
                np.save(folder / f"{kept}.npy", values)
            files = tuple(SourceFile.of(folder / one) for one in FILES)
            built = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            manifest = GazetteerManifest(
                name, origin, every, tables.aliases, dict(sorted(skipped.items())), files, built
            )
            manifest.write(folder)
    except OSError as error:
        raise StorageError(f"{out}: the gazetteer cannot be written ({error.strerror or error}).") from error
    return manifest


def check_free(out: Path, replace: bool) -> None:
    """Refuse to write over a folder, and over anything that is no gazetteer even if it is to be replaced."""
    if not out.exists():
        return
    if not replace:
        raise BadInput(f"{out}: is there already; give another name, or --replace to build it anew.")
    if not (out / FILE).is_file() and any(out.iterdir() if out.is_dir() else (out,)):
        raise BadInput(f"{out}: holds something else than a gazetteer ({FILE} is missing) and is not replaced.")


@contextmanager
def _put_in_place(out: Path, replace: bool) -> Iterator[Path]:
    """Give a folder beside `out` to write into, and rename it when all is written; nothing stays of a failure."""
    mark = secrets.token_hex(4)
    folder, old = (out.with_name(f".{out.name}.{mark}.{kind}") for kind in ("new", "old"))
    folder.mkdir(parents=True)
    try:
        yield folder
        for written in folder.iterdir():
            with written.open("rb") as stream:
                os.fsync(stream.fileno())
        check_free(out, replace)
        if out.exists():
            out.rename(old)
        folder.rename(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
