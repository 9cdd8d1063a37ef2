"""A provider of others, oidc-provider-mock, as a process of its own: with pages that a browser goes through."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.serving import free_port

_START_SECONDS = 30.0


@contextmanager
def mock_provider(log: Path) -> Iterator[str]:
    """Run it on this machine and yield its issuer; what it prints goes to `log`."""
    port = free_port()
    issuer = f"http://127.0.0.1:{port}"
    environment = os.environ | {"AUTHLIB_INSECURE_TRANSPORT": "1"}  # it is not reached by https here
    with log.open("ab") as output:
        command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce", "True"]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        _wait(issuer, process, log)
        yield issuer
    finally:
        process.terminate()
        process.wait(10)


def add_person(issuer: str, subject: str, **claims: object) -> None:
    """Let the provider know somebody."""
    httpx.put(f"{issuer}/users/{subject}", json=claims).raise_for_status()


def register_client(issuer: str, redirect_uri: str) -> tuple[str, str]:
    """Register a client that the provider knows by its redirect URI; return its id and secret."""
    made = httpx.post(f"{issuer}/oauth2/clients", json={"redirect_uris": [redirect_uri]}).raise_for_status().json()
    return made["client_id"], made["client_secret"]


def _wait(issuer: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(f"{issuer}/.well-known/openid-configuration", timeout=2).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise AssertionError(f"The provider did not start:\n{log.read_text(encoding='utf-8')}")
