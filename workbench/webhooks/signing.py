"""The signature of Standard Webhooks: HMAC-SHA256 of id, time and body with the webhook's secret.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any

PREFIX = "whsec_"
_SECRET_BYTES = 32


def new_secret() -> str:
    """Return a random secret: `whsec_` and base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def body_of(payload: Mapping[str, Any]) -> bytes:
    """Return the bytes that are signed and sent, the same at each attempt."""
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()


def headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers by which a receiver checks a body; `timestamp` is the attempt's, in seconds."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(base64.b64decode(secret.removeprefix(PREFIX)), signed, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
