"""Where a webhook may send: https to a public address, unless the settings allow more."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from crossner_core import web
from crossner_core.errors import BadInput
from workbench.settings import Settings

_MOST_CHARACTERS = 2000
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def check_url(url: str, settings: Settings) -> str:
    """Return an address; raise BadInput or InvalidConfig for one that no webhook may have. Looks nothing up."""
    if len(url) > _MOST_CHARACTERS or not all(" " < char <= "~" for char in url):
        raise BadInput(
            f"The address has {len(url)} characters; a webhook's has at most {_MOST_CHARACTERS}, without blanks, and "
            "only those of ASCII: write others as %XX, in a host's name as xn--…"
        )
    web.check_address(url, what="The address", example="https://example.org/hooks")
    if urlsplit(url).scheme != "https" and not settings.webhook_plain_http:
        raise BadInput(
            f"The address begins with {urlsplit(url).scheme}; a webhook needs https. An admin can allow http in the "
            "settings (CROSSNER_WEBHOOK_PLAIN_HTTP)."
        )
    return url


def reachable(url: str, settings: Settings) -> tuple[str, ...]:
    """Return the IP addresses of a webhook's host, which alone may be connected to; raise BadInput if it may not be.

    A host with any address that is not public is refused, unless the settings list it.
    """
    parts = urlsplit(check_url(url, settings))
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no valid name"
        raise BadInput(f"The host {host} has no address ({reason}); check its spelling.") from error
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in known))
    if host.lower() not in private_hosts(settings) and not all(map(is_public, addresses)):
        raise BadInput(
            f"The host {host} has a private or reserved address, which webhooks may not reach. An admin can list the "
            "host in the settings (CROSSNER_WEBHOOK_PRIVATE_HOSTS)."
        )
    return addresses


def private_hosts(settings: Settings) -> frozenset[str]:
    """Return the hosts that may have private addresses."""
    names = (name.strip().lower() for name in (settings.webhook_private_hosts or "").split(","))
    return frozenset(name for name in names if name)


def is_public(text: str) -> bool:
    """Return whether an IP address is public: neither private, loopback, link-local, shared, multicast nor reserved.

    Of an IPv6 address that carries an IPv4 address, that one counts.
    """
    address: IpAddress = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour
        if carried is None and address in _NAT64:
            carried = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        address = carried or address
    return address.is_global and not address.is_multicast and not address.is_reserved
