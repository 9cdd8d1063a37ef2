"""Campaign archives, opened and changed."""

from __future__ import annotations

import io
import zipfile


def contents(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive_:
        return {name: archive_.read(name) for name in archive_.namelist()}


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive_:
        for name, content in files.items():
            archive_.writestr(name, content)
    return buffer.getvalue()


def change(files: dict[str, bytes], name: str, old: bytes, new: bytes) -> bytes:
    assert old in files[name]
    return zipped({**files, name: files[name].replace(old, new, 1)})
