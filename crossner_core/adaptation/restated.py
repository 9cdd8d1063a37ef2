"""A file of PyTorch's, its pickles in the instructions of protocol 2: all that the reader of weights alone knows.

`torch.load(..., weights_only=True)` runs nothing but what it is allowed, but refuses a file that was written with
another protocol. Nothing is run here either: instructions are read one by one, and written again.
"""

from __future__ import annotations

import pickletools
import struct
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

# A file without a zip begins with so many pickles: a number, a version, a machine, the object, the tensors' keys.
PICKLES = 5
ZIP = b"PK\x03\x04"
_TEXTS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_BYTES = ("SHORT_BINBYTES", "BINBYTES", "BINBYTES8")
_PUTS = ("MEMOIZE", "BINPUT", "LONG_BINPUT")
_GETS = ("BINGET", "LONG_BINGET")


def restated_file(path: Path) -> tuple[BytesIO, set[str]]:
    """Return a copy of a file that `torch.save` wrote, its pickles restated, and all names (`module.name`) in them.

    Raises OSError if the file cannot be read, ValueError or BadZipFile if PyTorch did not write it.
    """
    with path.open("rb") as file:
        is_zip = file.read(len(ZIP)) == ZIP
        file.seek(0)
        if is_zip:
            return _restated_zip(file)
        parts = [restated(file) for _ in range(PICKLES)]
        return BytesIO(b"".join(part for part, _ in parts) + file.read()), set().union(*(names for _, names in parts))


def restated(file: BinaryIO) -> tuple[bytes, set[str]]:
    """Read one pickle; return it in the instructions of protocol 2, and all names (`module.name`) in it.

    An instruction of a later protocol stays as it is, if it is none for texts, bytes, names or the memo. Raises
    ValueError if it is no pickle.
    """
    start = file.tell()
    steps = [(code.name, value, (place or 0) - start) for code, value, place in pickletools.genops(file)]
    size = file.tell() - start
    file.seek(start)
    data, made = file.read(size), _Pickle()
    ends = [place for _, _, place in steps[1:]]
    for (name, value, place), end in zip(steps, (*ends, size), strict=True):
        made.add(name, value, data[place:end])
    return bytes(made.written), made.names


class _Pickle:
    """A pickle that is written again.

    Protocol 4 takes a name from the two texts before it, off the stack; protocol 2 states it. So texts are held back
    until something else comes, and stay out of the memo: they are written out again where one is fetched from there.
    """

    def __init__(self) -> None:
        self.written, self.names = bytearray(b"\x80\x02"), set[str]()
        self._waiting: list[str] = []
        self._texts: dict[int, str] = {}  # those in the memo, by their number there
        self._after_text = False
        self._numbered = 0  # how many things got a number in the memo without stating it

    def add(self, name: str, value: Any, raw: bytes) -> None:
        """Add an instruction by its name, what it states, and its bytes."""
        if name in ("PROTO", "FRAME"):
            return
        after_text, self._after_text = self._after_text, False
        if name in _TEXTS or (name in _GETS and value in self._texts):
            self._waiting.append(value if name in _TEXTS else self._texts[value])
            self._after_text = True
        elif name in _PUTS:
            self._put(value, after_text)
        elif name == "STACK_GLOBAL":
            if len(self._waiting) < 2:
                raise ValueError("a name without its texts.")
            module, of_it = self._waiting.pop(-2), self._waiting.pop()
            self._write(f"c{module}\n{of_it}\n".encode())
            self.names.add(f"{module}.{of_it}")
        elif name in _BYTES:
            self._write(b"c_codecs\nencode\n" + _text(value.decode("latin1")) + _text("latin1") + b"\x86R")
        else:
            if name in ("GLOBAL", "INST"):
                self.names.add(value.replace(" ", "."))
            self._write(raw)

    def _put(self, number: int | None, after_text: bool) -> None:
        """Remember the thing on top of the stack, under the next number if none is stated."""
        if number is None:
            number = self._numbered
            self._numbered += 1
        if after_text:
            self._texts[number], self._after_text = self._waiting[-1], True
        else:
            self._texts.pop(number, None)
            self._write(b"r" + struct.pack("<I", number))

    def _write(self, instruction: bytes) -> None:
        self.written += b"".join(map(_text, self._waiting)) + instruction
        self._waiting.clear()


def _text(text: str) -> bytes:
    """Return the instruction that puts a text on the stack."""
    data = text.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def _restated_zip(file: BinaryIO) -> tuple[BytesIO, set[str]]:
    """Do as `restated_file` with a zip, which PyTorch writes since 1.6, never compressed."""
    copy, names = BytesIO(), set[str]()
    with zipfile.ZipFile(file) as given, zipfile.ZipFile(copy, "w") as made:
        for member in given.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed.")
            data = given.read(member)
            if member.filename.endswith(".pkl"):
                data, own = restated(BytesIO(data))
                names |= own
            made.writestr(member.filename, data)
    copy.seek(0)
    return copy, names
