"""A seeded mutator: the same way in, seed and number give the same input."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

Files = dict[str, bytes]
MOST_BYTES = 400_000
_BYTES: Sequence[bytes] = (
    b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x85", b"\r", b"\n", b"\n\n", b"\t",
    b"\x1f\x8b", b'"', b"'", b"\\", b"\\u0000", b"\\ud800", b"%00", b"%ff", b"<", b">", b"&#0;", b"]]>", b"<!--",
    b"{{", b"[[", b"|}", b"[" * 3000, b"{" * 3000, b'{"a":' * 3000, b'"' * 5000, b"9" * 6000, b"1e999", b"NaN",
    b"-Infinity", b"-1", b"0", b"18446744073709551616", b"null", b"true", b"[]", b"{}", b"O", b"B-", b"I-song",
    b"../../x", b"CON", b" " * 5000, "\u202e\u200d\U0001f469\u200d\U0001f680".encode(), "e\u0301".encode(),
    "İ".encode(), b"PK\x03\x04", b"#", b"= = =",
)  # fmt: skip
_VALUES: Sequence[Any] = (
    None, True, False, 0, -1, 5, 2**31, 2**63, 2**70, -(2**70), 0.5, 1e308, float("nan"), float("inf"), "", " ", "a",
    "\0", "\ud800", "\x1b[2J", "a" * 3000, "../../x", "2020-01-01", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00",
    [], {}, [[]], [None], {"": None}, {"a": {"a": {"a": []}}}, [1] * 500, "submitted", "music", "<b>x</b>",
)  # fmt: skip
_DEEP = 900


def mutate(seeds: Sequence[Mapping[str, bytes]], rng: random.Random) -> Files:
    """Return one of the seeds with one to four changes, most of them in one of its files."""
    files = dict(rng.choice(seeds))
    name = rng.choice(sorted(files))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        if rng.random() < 0.1:
            name = rng.choice(sorted(files))
        files[name] = _changed(files[name], rng)[:MOST_BYTES]
    if len(files) > 1 and rng.random() < 0.05:
        del files[rng.choice(sorted(files))]
    return files


def _changed(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        changed = _changed_json(data, rng)
        if changed is not None:
            return changed
    return rng.choice(_CHANGES)(data, rng)


def _changed_json(data: bytes, rng: random.Random) -> bytes | None:
    """Change a value of JSON, or of one line of JSON lines; None for what is neither."""
    try:
        return _as_json(mutate_value(json.loads(data), rng))
    except (ValueError, RecursionError):
        lines = data.split(b"\n")
    number = rng.randrange(len(lines))
    try:
        lines[number] = _as_json(mutate_value(json.loads(lines[number]), rng))
    except (ValueError, RecursionError):
        return None
    return b"\n".join(lines)


def _as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def mutate_value(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with one place in it changed: replaced, left out, doubled, or wrapped."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(sorted(value))
        kind = rng.random()
        if kind < 0.1:
            return {name: part for name, part in value.items() if name != key}
        if kind < 0.2:
            return {**value, rng.choice(("x", "", "\0", "id", "type", "__class__")): rng.choice(_VALUES)}
        return {**value, key: mutate_value(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        number = rng.randrange(len(value))
        kind = rng.random()
        if kind < 0.1:
            return value[:number] + value[number + 1 :]
        if kind < 0.25:
            return [*value, *[value[number]] * rng.choice((1, 1, 1, 300))]
        return [*value[:number], mutate_value(value[number], rng), *value[number + 1 :]]
    return _wrapped(value, rng) if rng.random() < 0.15 else rng.choice(_VALUES)


def _wrapped(value: Any, rng: random.Random) -> Any:
    for _ in range(rng.choice((1, 2, _DEEP))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randint(0, len(data))]


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data or b"x")
    for _ in range(rng.choice((1, 1, 3, 20))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _without(data: bytes, rng: random.Random) -> bytes:
    start, end = _slice(data, rng)
    return data[:start] + data[end:]


def _doubled(data: bytes, rng: random.Random) -> bytes:
    start, end = _slice(data, rng)
    return data[:end] + data[start:end] * rng.choice((1, 1, 50)) + data[end:]


def _moved(data: bytes, rng: random.Random) -> bytes:
    start, end = _slice(data, rng)
    rest = data[:start] + data[end:]
    place = rng.randint(0, len(rest))
    return rest[:place] + data[start:end] + rest[place:]


def _inserted(data: bytes, rng: random.Random) -> bytes:
    place = rng.randint(0, len(data))
    return data[:place] + rng.choice(_BYTES) * rng.choice((1, 1, 1, 10)) + data[place:]


def _word_replaced(data: bytes, rng: random.Random) -> bytes:
    """Replace what stands between blanks, quotes, tabs or marks: a word, a number, a tag, a name."""
    ends = [-1, *(number for number, byte in enumerate(data) if byte in b' \t\n"<>=,:[]{}()'), len(data)]
    number = rng.randrange(len(ends) - 1)
    return data[: ends[number] + 1] + rng.choice(_BYTES) + data[ends[number + 1] :]


def _lines_changed(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        lines[first], lines[second] = lines[second], lines[first]
    elif kind == 1:
        del lines[first]
    elif kind == 2:
        lines[first:first] = [lines[second]] * rng.choice((1, 2, 1000))
    else:
        lines[first] += lines[second]
    return b"\n".join(lines)


def _slice(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.choice((1, 2, 5, 20, 200, 2000)))


_CHANGES = (
    _cut, _flip, _flip, _without, _doubled, _moved, _inserted, _inserted, _word_replaced, _word_replaced,
    _lines_changed,
)  # fmt: skip
