"""Hash and check passwords with argon2id; make random ones."""

from __future__ import annotations

import secrets
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from crossner_core.errors import InvalidAccount

SHORTEST = 10
LONGEST = 1000
NO_PASSWORD = "!"
"""What is stored in place of a hash for an account that no password opens; nothing hashes to it."""
HASHER = PasswordHasher()
"""Parameters of argon2-cffi's current default (RFC 9106, low memory); a sign-in renews older hashes."""

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # nothing that is mistaken for another when read aloud


def random_password() -> str:
    """Make a password of 16 characters in four groups (about 79 bits)."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(4))


def check_strength(password: str, *, name: str = "") -> None:
    """Raise InvalidAccount unless the password may be used for the account `name`."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise InvalidAccount(f"A password has {SHORTEST} to {LONGEST} characters; this one has {len(password)}.")
    if len(set(password)) < 4 or (name and password.casefold() == name.casefold()):
        raise InvalidAccount("This password is too easy to guess; mix more characters, or take a random one.")


def hash_password(password: str) -> str:
    return HASHER.hash(password)


def verify(password: str, stored: str | None) -> bool:
    """Return whether the password matches; without a stored hash, take the same time and return False."""
    known = stored if stored != NO_PASSWORD else None
    try:
        HASHER.verify(known or _unknown(HASHER), password)
    except (VerificationError, InvalidHashError):
        return False
    return known is not None


def is_outdated(stored: str) -> bool:
    """Return whether the hash was made with outdated parameters."""
    return HASHER.check_needs_rehash(stored)


@cache
def _unknown(hasher: PasswordHasher) -> str:
    return hasher.hash(secrets.token_hex(16))
