from collections.abc import Callable, Sequence
from typing import Any

def scan(
    rows: Sequence[Sequence[str]],
    names: Any,
    beginnings: Any,
    seed: int,
    factor: int,
    get: Callable[[bytes], int | None],
    every: bool,
) -> list[list[tuple[int, int, int]]]: ...
