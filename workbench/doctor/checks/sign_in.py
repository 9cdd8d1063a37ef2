"""The sign-in provider: whether it answers, knows this workbench's address, and is reached safely."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

from crossner_core.errors import InvalidConfig, ProviderUnavailable
from crossner_core.web import Incomplete, Transient, Watch, send, status_of
from workbench.accounts.oidc.provider import Provider
from workbench.accounts.oidc.provider_settings import ProviderSettings, is_safe, read_provider
from workbench.doctor.base import Context, Finding, register
from workbench.settings import Settings

_TIMEOUT = 8.0  # seconds
_LARGEST = 1 << 20  # bytes
_REFUSED = range(400, 500)


@register(
    "sign-in-provider",
    "The sign-in provider answers and knows this workbench",
    remedy="No repair is made here: change oidc.toml, or register the address at the provider (docs/sign-in.md).",
)
def sign_in_provider(context: Context) -> Iterator[Finding]:
    """Read the provider's file and secret, fetch what it publishes, and try the way to its sign-in page."""
    path = context.settings.sign_in_provider
    try:
        described = read_provider(path)
        if described is None:
            return
        described.secret()
    except InvalidConfig as error:
        yield Finding(str(path), str(error))
        return
    yield from (Finding(described.address, problem) for problem in _unsafe(described, context.settings))
    provider = Provider(described)
    try:
        provider.published()
        provider.keys()
    except ProviderUnavailable as error:
        yield Finding(described.issuer, str(error))
        return
    if problem := _address_problem(provider):
        yield Finding(described.redirect_uri, problem)


def _unsafe(described: ProviderSettings, settings: Settings) -> Iterator[str]:
    if not is_safe(described.address):
        yield "is the workbench's address and begins with http: codes and sessions travel unencrypted"
    elif described.address.startswith("https:") and not settings.secure_cookie:
        yield "is reached by https, and CROSSNER_SECURE_COOKIE is not set: set it to true"


def _address_problem(provider: Provider) -> str:
    """Return why the provider would not send browsers back here: it refuses our redirect URI before anyone signs in."""
    url = provider.authorization_url(state="doctor", nonce="doctor", verifier="d" * 43, prompt="none")
    try:
        with Watch(_TIMEOUT) as watch:
            send(urllib.request.Request(url), timeout=_TIMEOUT, largest=_LARGEST, watch=watch)
    except urllib.error.HTTPError as error:
        with error:
            if error.code in _REFUSED:
                return f"the provider refuses it, {status_of(error)}: register it there as a redirect URI of the client"
    except (Transient, Incomplete) as error:
        return f"the provider's sign-in page could not be tried: {error}"
    return ""
