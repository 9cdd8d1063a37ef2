"""Files as they come, plain or packed, and what is said of those that cannot be read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from xml.etree.ElementTree import ParseError

from crossner_core.errors import BadInput


def open_binary(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacked by its suffix."""
    match path.suffix:
        case ".bz2":
            return bz2.open(path, "rb")
        case ".gz":
            return gzip.open(path, "rb")  # type: ignore[return-value]
        case ".xz":
            return lzma.open(path, "rb")
        case _:
            return path.open("rb")


@contextmanager
def unreadable(path: Path, what: str) -> Iterator[None]:
    """Turn what reading a file raises (missing, packed wrongly, cut off, no valid XML or triples) into BadInput."""
    try:
        yield
    except FileNotFoundError as error:
        raise BadInput(f"{path}: there is no such file.") from error
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path.name}: is cut off or damaged ({error}); get it again.") from error
    except (ParseError, SyntaxError, UnicodeDecodeError) as error:
        raise BadInput(f"{path.name}: cannot be read as {what}: {error}.") from error
    except OSError as error:
        if error.errno is None:  # how bz2 says that it is no bz2
            raise BadInput(f"{path.name}: is cut off or damaged ({error}); get it again.") from error
        raise BadInput(f"{path}: cannot be read ({error.strerror}).") from error
