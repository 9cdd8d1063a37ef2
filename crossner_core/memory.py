"""Whether the process keeps freed memory or returns it to the system."""

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
    """Keep freed memory for reuse from now on; return whether the allocator supports it.

    By default glibc maps each block above 32 MB anew, and the kernel clears it page by page. In each training step of a
    small encoder the gradients of the embeddings are such a block, and so are large activations. Results do not change.
    """
    mallopt = getattr(_glibc(), "mallopt", None)
    if mallopt is None:
        return False
    return all([mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, _ALL), mallopt(_TOP_PAD, _PAD)])


@contextmanager
def without_collecting() -> Iterator[None]:
    """Pause the garbage collector while millions of objects are made; it would scan them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def give_back_freed() -> None:
    """Return freed memory to the system, if supported."""
    trim = getattr(_glibc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
