"""What becomes of memory that is freed: whether the process keeps it, or gives it back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Names of settings in glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_ALL = 2**31 - 1
_PAD = 64 * 2**20


def keep_freed() -> bool:
    """Keep what is freed for the next who asks, from now on; return whether the system's allocator can be told.

    By itself glibc maps each block above 32 MB anew, and the kernel clears it page by page. The gradients of the
    embeddings are such a block in each training step of a small encoder, and so are large activations. Numbers stay
    what they are.
    """
    mallopt = getattr(_glibc(), "mallopt", None)
    if mallopt is None:
        return False
    return all([mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, _ALL), mallopt(_TOP_PAD, _PAD)])


@contextmanager
def without_collecting() -> Iterator[None]:
    """Let many objects that stay be made without the garbage collector, which looks through them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def give_back_freed() -> None:
    """Give back to the system what is freed and kept, where there is such a thing."""
    trim = getattr(_glibc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
