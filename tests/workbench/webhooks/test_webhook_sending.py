"""Deliveries: signed, retried, given up; receivers that hang, redirect or are gone; two workers, and one killed."""

from __future__ import annotations

import datetime as dt
import signal
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import sqlalchemy as sa
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from db.engine import Store
from db.programs import webhook_rows
from db.programs.webhook_tables import Delivery
from db.types import now
from tests.support.builders import make_campaign, make_people
from tests.support.postgres import either_store
from tests.support.training_store import start_worker
from tests.support.webhooks import ALL, receiving, send_all, status
from tests.support.workers import wait_for
from workbench.accounts.actors import Actor
from workbench.settings import Settings
from workbench.webhooks import addresses, managing, sending
from workbench.webhooks.managing import DeliveryView, NewSecret
from workbench.webhooks.sending import PAUSES, Sender

__all__ = ["either_store"]
People = dict[str, Actor]


def hook(store: Store, people: People, campaign: int, url: str) -> NewSecret:
    return managing.make_webhook(store, people["res"], campaign, url=url, events=ALL)


def queued(store: Store, people: People, campaign: int, made: NewSecret) -> int:
    return managing.send_test(store, people["res"], campaign, made.webhook.id).id


def log_of(store: Store, people: People, campaign: int) -> list[DeliveryView]:
    return list(managing.list_deliveries(store, people["res"], campaign))


def make_due(store: Store) -> None:
    """Let the pause before the next attempt be over."""
    with store.write() as session:
        session.execute(sa.update(Delivery).where(Delivery.next_at.is_not(None)).values(next_at=now()))


def test_delivery_is_verified_by_standard_webhooks(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    with receiving() as receiver:
        made = hook(store, people, campaign, receiver.url)
        queued(store, people, campaign, made)
        assert send_all(store, settings) == 1
    (request,) = receiver.requests
    payload = request.verified(made.secret)
    assert payload["type"] == "webhook.test" and payload["data"] == {"campaign": campaign, "webhook": made.webhook.id}
    assert dt.datetime.fromisoformat(payload["timestamp"]).tzinfo is not None
    assert request.path == "/hooks" and request.headers["content-type"] == "application/json"
    with pytest.raises(WebhookVerificationError):
        Verifier(made.secret).verify(request.body + b" ", request.headers)
    (line,) = log_of(store, people, campaign)
    assert (line.state, line.attempts, line.last_status, line.next_at) == ("delivered", 1, 204, None)
    assert line.message_id == request.headers["webhook-id"] and line.finished_at is not None


def test_failure_is_sent_again_under_the_same_id(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    with receiving(status(500, 503, 200)) as receiver:
        made = hook(store, people, campaign, receiver.url)
        queued(store, people, campaign, made)
        for number, pause in enumerate(PAUSES[:2], start=1):
            assert send_all(store, settings) == 1
            (line,) = log_of(store, people, campaign)
            assert line.state == "failed" and line.attempts == number and line.last_status in (500, 503)
            assert line.next_at is not None and pause - 2 < (line.next_at - now()).total_seconds() < pause * 1.1 + 1
            make_due(store)
        assert send_all(store, settings) == 1
    (line,) = log_of(store, people, campaign)
    assert line.state == "delivered" and line.attempts == 3 and not line.last_error
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    assert [request.verified(made.secret) for request in receiver.requests] == [dict(line.payload)] * 3


def test_delivery_is_given_up_after_the_last_pause_and_can_be_sent_again(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    with receiving(status(*[500] * (len(PAUSES) + 1), 200)) as receiver:
        number = queued(store, people, campaign, hook(store, people, campaign, receiver.url))
        for _ in range(len(PAUSES) + 1):
            make_due(store)
            assert send_all(store, settings) == 1
        make_due(store)
        assert send_all(store, settings) == 0
        (line,) = log_of(store, people, campaign)
        assert line.state == "given up" and line.last_error == "it answers 500" and line.next_at is None
        managing.redeliver(store, people["res"], campaign, number)
        assert send_all(store, settings) == 1
    (line,) = log_of(store, people, campaign)
    assert line.state == "delivered" and line.attempts == 1
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1


def test_retry_after_makes_a_pause_longer(store: Store, people: People, campaign: int, settings: Settings) -> None:
    with receiving(status(429, retry_after="900")) as receiver:
        queued(store, people, campaign, hook(store, people, campaign, receiver.url))
        send_all(store, settings)
    (line,) = log_of(store, people, campaign)
    assert line.next_at is not None and 890 < (line.next_at - now()).total_seconds() < 901


def test_410_switches_the_webhook_off_and_gives_up_what_waits(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    with receiving(status(410)) as receiver:
        made = hook(store, people, campaign, receiver.url)
        for _ in range(2):
            queued(store, people, campaign, made)
        send_all(store, settings)
    assert len(receiver.requests) == 1
    assert [line.state for line in log_of(store, people, campaign)] == ["given up", "given up"]
    (view,) = managing.list_webhooks(store, people["res"], campaign)
    assert not view.active and "410" in view.off_reason


def test_redirect_is_not_followed(store: Store, people: People, campaign: int, settings: Settings) -> None:
    with receiving() as target, receiving(status(302, location=target.url.replace("localhost", "127.0.0.1"))) as first:
        queued(store, people, campaign, hook(store, people, campaign, first.url))
        send_all(store, settings)
    assert len(first.requests) == 1 and not target.requests
    (line,) = log_of(store, people, campaign)
    assert line.state == "failed" and line.last_error == "it answers 302, a redirect, which is not followed"


def test_huge_answer_is_not_read(store: Store, people: People, campaign: int, settings: Settings) -> None:
    written = []

    def flood(handler: BaseHTTPRequestHandler, _number: int) -> None:
        handler.send_response(200)
        handler.send_header("content-length", str(10**12))
        handler.end_headers()
        try:
            while sum(written) < 10**9:
                written.append(handler.wfile.write(b"x" * 65536))
        except OSError:
            return

    with receiving(flood) as receiver:
        queued(store, people, campaign, hook(store, people, campaign, receiver.url))
        send_all(store, settings)
    assert log_of(store, people, campaign)[0].state == "delivered" and sum(written) < 50_000_000


def drip(handler: BaseHTTPRequestHandler, _number: int) -> None:
    """Answer one byte at a time, so that no single wait is long."""
    try:
        for byte in b"HTTP/1.1 200 OK" * 40:
            handler.wfile.write(bytes([byte]))
            time.sleep(0.05)
    except OSError:
        return


@pytest.mark.slow
def test_receiver_that_hangs_is_cut_off_and_holds_back_no_other(
    store: Store, people: People, campaign: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TIMEOUT", 4.0)
    with receiving(drip) as slow, receiving() as quick:
        for receiver, count in ((slow, 3), (quick, 3)):
            made = hook(store, people, campaign, receiver.url)
            for _ in range(count):
                queued(store, people, campaign, made)
        sender = Sender(store, settings, period=0.05)
        began = time.monotonic()
        sender.start()
        while len(quick.requests) < 3 and time.monotonic() - began < 4:
            time.sleep(0.02)
        assert len(quick.requests) == 3 and len(slow.requests) == 1
        assert log_of(store, people, campaign)[-1].state == "waiting", "the first one still hangs"
        while log_of(store, people, campaign)[-1].state == "waiting" and time.monotonic() - began < 10:
            time.sleep(0.02)
        sender.stop(seconds=0.1)
    line = log_of(store, people, campaign)[-1]
    assert line.state == "failed" and "no complete answer within 4 s" in line.last_error


def test_two_workers_send_each_delivery_once(either_store: Store, settings: Settings) -> None:
    store, people = either_store, make_people(either_store)
    campaign = make_campaign(store, people)
    with receiving() as receiver:
        hooks = [hook(store, people, campaign, f"{receiver.url}/{number}") for number in range(3)]
        for made in hooks * 6:
            queued(store, people, campaign, made)
        senders = [Sender(store, settings, period=0.01) for _ in range(2)]
        for sender in senders:
            sender.start()
        until = time.monotonic() + 30
        while any(line.state != "delivered" for line in log_of(store, people, campaign)) and time.monotonic() < until:
            time.sleep(0.05)
        for sender in senders:
            sender.stop()
    ids = [(request.path, request.headers["webhook-id"]) for request in receiver.requests]
    assert len(ids) == len(set(ids)) == 18
    assert all(line.attempts == 1 for line in log_of(store, people, campaign))


def test_claim_of_a_dead_worker_is_taken_over_and_its_outcome_refused(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    with receiving() as receiver:
        queued(store, people, campaign, hook(store, people, campaign, receiver.url))
        with store.write() as session:
            lost = webhook_rows.claim(session, busy=(), lease=dt.timedelta(milliseconds=1))
        assert lost is not None
        time.sleep(0.01)
        assert send_all(store, settings) == 1
    with store.write() as session:
        sending.record(session, lost, sending.Attempt(500, "late"))
    (line,) = log_of(store, people, campaign)
    assert line.state == "delivered" and line.attempts == 2


@pytest.mark.slow
def test_worker_killed_while_it_sends_loses_nothing(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    held, let_go = threading.Event(), threading.Event()

    def hold(handler: BaseHTTPRequestHandler, number: int) -> None:
        if number == 0:
            held.set()
            let_go.wait(60)
        status(200)(handler, 0)

    prelude = "import datetime as dt\nfrom workbench.webhooks import sending\nsending.LEASE = dt.timedelta(seconds=3)\n"
    with receiving(hold) as receiver:
        queued(store, people, campaign, hook(store, people, campaign, receiver.url))
        environment = settings.environment()
        first = start_worker(store, settings.home, prelude=prelude, once=False, environment=environment)
        wait_for(held.is_set, first)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        let_go.set()
        second = start_worker(store, settings.home, prelude=prelude, once=False, environment=environment)
        try:
            wait_for(lambda: log_of(store, people, campaign)[0].state == "delivered", second)
        finally:
            second.send_signal(signal.SIGTERM)
            second.communicate(timeout=60)
    assert len(receiver.requests) == 2
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1


def test_private_address_is_refused_when_sending_though_it_was_public_when_made(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    with receiving() as receiver:
        queued(store, people, campaign, hook(store, people, campaign, receiver.url))
        send_all(store, settings.model_copy(update={"webhook_private_hosts": ""}))
    assert not receiver.requests
    (line,) = log_of(store, people, campaign)
    assert line.state == "failed" and "private or reserved address" in line.last_error


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a key and a certificate for a host's name, signed by itself."""
    key, signed = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    subprocess.run(
        [*command, "-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(signed)],
        check=True,
        capture_output=True,
    )
    return key, signed


def answering_as(monkeypatch: pytest.MonkeyPatch, name: str, *answers: str) -> list[str]:
    """Let a host resolve to these addresses in turn, the last one from then on; return the names looked up."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: str, port: int, *args: object, **kwargs: object) -> list[object]:
        if host != name:
            return list(real(host, port, *args, **kwargs))  # type: ignore[arg-type]
        asked.append(host)
        ip = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def test_connection_goes_to_the_address_that_was_checked(
    store: Store, people: People, campaign: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name resolves to another address right after the check, as in a rebinding attack."""
    with receiving() as receiver:
        port = receiver.url.split(":")[2].split("/")[0]
        hosts = "localhost, hooks.test"
        own = settings.model_copy(update={"webhook_private_hosts": hosts})
        monkeypatch.setenv("CROSSNER_WEBHOOK_PRIVATE_HOSTS", hosts)
        asked = answering_as(monkeypatch, "hooks.test", "127.0.0.1", "127.0.0.1", "192.0.2.1")
        queued(store, people, campaign, hook(store, people, campaign, f"http://hooks.test:{port}/x"))
        send_all(store, own)
    assert len(receiver.requests) == 1 and receiver.requests[0].headers["host"] == f"hooks.test:{port}"
    assert len(asked) == 2, "looked up when made and when sent, and not again to connect"


def test_certificate_is_checked_against_the_name(
    store: Store, people: People, campaign: int, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, signed = certificate(tmp_path, "hooks.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(signed))
    hosts = "hooks.test,other.test"
    own = settings.model_copy(update={"webhook_private_hosts": hosts, "webhook_plain_http": False})
    monkeypatch.setenv("CROSSNER_WEBHOOK_PRIVATE_HOSTS", hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed, key)
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, port, *rest, **more: real("127.0.0.1" if host.endswith(".test") else host, port, *rest, **more),
    )
    with receiving(tls=context) as receiver:
        port = receiver.url.split(":")[2].split("/")[0]
        for name in ("hooks.test", "other.test"):
            queued(store, people, campaign, hook(store, people, campaign, f"https://{name}:{port}/x"))
        send_all(store, own)
    refused, delivered = log_of(store, people, campaign)
    assert delivered.state == "delivered" and len(receiver.requests) == 1
    assert refused.state == "failed" and "certificate" in refused.last_error.lower()


def test_proxy_of_the_environment_is_not_used(
    store: Store, people: People, campaign: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as proxy, receiving() as receiver:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        queued(store, people, campaign, hook(store, people, campaign, receiver.url))
        send_all(store, settings)
    assert len(receiver.requests) == 1 and not proxy.requests


@pytest.mark.parametrize(
    "ip",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "255.255.255.255", "::1", "::", "fe80::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
     "64:ff9b::7f00:1", "2002:7f00:1::", "192.0.2.1"],
)  # fmt: skip
def test_address_is_not_public(ip: str) -> None:
    assert not addresses.is_public(ip)


@pytest.mark.parametrize("ip", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_address_is_public(ip: str) -> None:
    assert addresses.is_public(ip)


def test_old_lines_of_the_log_are_deleted(store: Store, people: People, campaign: int, settings: Settings) -> None:
    with receiving() as receiver:
        made = hook(store, people, campaign, receiver.url)
        old = queued(store, people, campaign, made)
        send_all(store, settings)
        new = queued(store, people, campaign, made)
    with store.write() as session:
        past = now() - sending.KEPT_FOR - dt.timedelta(days=1)
        session.execute(sa.update(Delivery).where(Delivery.id == old).values(finished_at=past))
        session.execute(sa.update(Delivery).where(Delivery.id == new).values(created_at=past))
        assert webhook_rows.forget_settled(session, before=now() - sending.KEPT_FOR) == 1
    assert [line.id for line in log_of(store, people, campaign)] == [new]
