"""The file that describes the sign-in provider: TOML. It names the variable or file of the secret, never the secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.records import Record, parse, read
from crossner_core.web import check_address
from workbench.accounts.roles import EVERYONE

WAIT = "wait"
"""The policy by which an admin lets in whoever signs in for the first time."""
CALLBACK = "/auth/oidc/callback"
AFTER_LOGOUT = "/auth/login"
LOGOUT = "/auth/oidc/logout"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ProviderSettings(Record):
    """How people sign in with a provider; `address` is the workbench's own, as browsers reach it.

    `roles` gives groups their roles; of several the last of annotator, expert, researcher, admin counts.
    `first_sign_in` is `wait` or a role.
    """

    issuer: str
    client_id: str
    address: str
    secret_variable: str = ""
    secret_file: str = ""
    name: str = "single sign-on"
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"
    roles: Mapping[str, str] = field(default_factory=dict)
    first_sign_in: str = WAIT
    show_local: bool = True

    def __post_init__(self) -> None:
        check_address(self.issuer, what="issuer", example="https://login.example/realms/lab")
        check_address(self.address, what="address", example="https://workbench.example")
        if not is_safe(self.issuer):
            raise InvalidConfig(f"issuer is {self.issuer!r}; it must begin with https, or be on this machine.")
        parts = urlsplit(self.address)
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise InvalidConfig(f"address is {self.address!r}; give scheme, host and port alone.")
        if not self.client_id:
            raise InvalidConfig("client_id is empty; give the id that the provider knows the workbench by.")
        if self.secret_variable and self.secret_file:
            raise InvalidConfig("secret_variable and secret_file are both given; keep one of them.")
        if self.secret_variable and not _VARIABLE.fullmatch(self.secret_variable):
            raise InvalidConfig(
                "secret_variable is no name of an environment variable; it names the variable that holds the secret."
            )
        if not 1 <= len(self.name) <= 40 or not self.name.isprintable():
            raise InvalidConfig(f"name has {len(self.name)} characters; 1 to 40 printable ones are allowed.")
        if "openid" not in self.scopes or any(not scope or " " in scope for scope in self.scopes):
            raise InvalidConfig(
                f"scopes are {', '.join(self.scopes)}; openid must be among them, each without a space."
            )
        for group, role in self.roles.items():
            if role not in EVERYONE:
                raise InvalidConfig(f"roles gives {group!r} the role {role!r}; roles are {', '.join(EVERYONE)}.")
        if self.first_sign_in not in (WAIT, *EVERYONE):
            raise InvalidConfig(
                f"first_sign_in is {self.first_sign_in!r}; give {WAIT} or one of {', '.join(EVERYONE)}."
            )

    @property
    def redirect_uri(self) -> str:
        return self.address.rstrip("/") + CALLBACK

    @property
    def after_logout(self) -> str:
        return self.address.rstrip("/") + AFTER_LOGOUT

    def role_of(self, groups: Iterable[str]) -> str | None:
        """Return the role that groups give, None if none of them has one."""
        given = {self.roles[group] for group in groups if group in self.roles}
        return max(given, key=EVERYONE.index, default=None)

    def secret(self) -> str:
        """Return the client's secret, empty for a client without; raise InvalidConfig if it is not where it should be.

        It is read each time, so that a new one counts without a restart.
        """
        if self.secret_variable:
            if not (secret := os.environ.get(self.secret_variable, "").strip()):
                raise InvalidConfig(f"The variable {self.secret_variable} of the client's secret is not set.")
            return secret
        if self.secret_file:
            try:
                secret = Path(self.secret_file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidConfig(f"The file {self.secret_file} of the client's secret cannot be read.") from error
            if not secret:
                raise InvalidConfig(f"The file {self.secret_file} of the client's secret is empty.")
            return secret
        return ""


def is_safe(url: str) -> bool:
    """Return whether what is sent to a URL is encrypted, or stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in _LOCAL


def read_provider(path: Path) -> ProviderSettings | None:
    """Return the provider that a file describes, None without a file; raise InvalidConfig if it cannot be used."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path.name}, the file of the sign-in provider, cannot be read: {error}.") from error
    try:
        values = parse(text, "TOML")
        if "client_secret" in values or "secret" in values:
            raise InvalidConfig(
                "the secret does not belong into it: name the variable that holds it as secret_variable, or a file as "
                "secret_file."
            )
        return read(ProviderSettings, values, "the provider")
    except (BadInput, InvalidConfig) as error:
        raise InvalidConfig(f"{path.name}, the file of the sign-in provider: {error}") from error
