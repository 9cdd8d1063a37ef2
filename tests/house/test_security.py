"""The real server: what a stranger reaches, when a session ends, and a taken port."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from db.engine import Store
from db.migrate import migrate
from pages.main import SECTIONS
from tests.support.serving import CHROMIUM, ROOT, browser_page, browser_sign_in, post_sign_in, serve
from workbench.accounts import accounts
from workbench.accounts.sign_in import sign_out

PASSWORD = "correct horse battery"
PAGES = sorted(path.relative_to(ROOT / "pages").with_suffix("").as_posix() for path in (ROOT / "pages").rglob("*.py"))
STREAMLIT = (
    "/_stcore/health", "/_stcore/host-config", "/_stcore/metrics", "/_stcore/script-health-check", "/_stcore/stream",
    "/_stcore/upload_file/a/b", "/_stcore/agent/openapi.json", "/_stcore/agent/interact", "/_stcore/agent/mcp",
    "/_stcore/bidi-components/crossner_sign_out/index.js", "/_stcore", "/component/x/index.html", "/component",
    "/media/0123456789abcdef.csv", "/media", "/static/js/index.js", "/static/../pages/main.py", "/static",
    "/app/static/x", "/oauth2callback", "/index.html", "/manifest.json", "/favicon.png", "/robots.txt", "/api", "/docs",
)  # fmt: skip
LOOKALIKES = (
    "/auth/login/", "//auth/login", "/auth/login/../../", "/auth/login%2f..%2f", "/auth/login;x", "/AUTH/LOGIN",
    "/auth/login/x", "/x/auth/login", "/auth", "/auth/logout", "/health/", "/health/x", "/health%20", "/healthz",
    "/.streamlit/config.toml", "/pages/main.py", "/app.py", "/..%2fapp.py", "/%2e%2e/app.py", "/~/+/people",
)  # fmt: skip
OTHER_METHODS = ("HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
EVERY_PATH = ("/", *(f"/{page}" for page in PAGES), *STREAMLIT, *LOOKALIKES)
KNOCKS = [(method, path) for method in ("GET", "POST") for path in EVERY_PATH]
KNOCKS += [(method, path) for method in OTHER_METHODS for path in ("/", "/people", *STREAMLIT[:8:2])]


@dataclass(frozen=True)
class Served:
    """A running server, its store, and what it answered a stranger before anyone had signed in."""

    url: str
    store: Store
    fresh: dict[tuple[str, str], httpx.Response]
    fresh_sockets: dict[str, int]

    @contextmanager
    def sign_in(self, name: str = "ann") -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.url) as client:
            assert post_sign_in(client, name, PASSWORD).status_code == 303
            yield client


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("home")
    store = Store(f"sqlite:///{home / 'workbench.sqlite3'}")
    migrate(store)
    admin = accounts.create_user(store, None, name="adm", display_name="Ada", password=PASSWORD, role="admin")
    accounts.create_user(store, admin, name="ann", display_name="Ann", password=PASSWORD, role="annotator")
    with serve(home) as url:
        # The very first requests this server gets are a stranger's.
        sockets = {path: _refused_with(url, path) for path in ("/_stcore/stream", "/people/_stcore/stream", "/")}
        yield Served(url, store, _knock(url), sockets)
    store.close()


def _knock(url: str) -> dict[tuple[str, str], httpx.Response]:
    headers = {"accept": "text/html", "x-forwarded-user": "adm", "cookie": "crossner_session=" + "a" * 43}
    with httpx.Client(base_url=url, headers=headers) as stranger:
        return {
            (method, path): stranger.request(method, httpx.URL(url).copy_with(raw_path=path.encode()))
            for method, path in KNOCKS
        }


def _refused_with(url: str, path: str, **headers: str) -> int:
    """Return the HTTP status that refuses a websocket; fail when it opens."""
    try:
        with _socket(url, path=path, **headers):
            raise AssertionError(f"a stranger's websocket opened at {path}")
    except InvalidStatus as refusal:
        return refusal.response.status_code


@contextmanager
def _socket(url: str, *, path: str = "/_stcore/stream", **headers: str) -> Iterator[ClientConnection]:
    origin = headers.pop("origin", url)
    parts = urlsplit(url)
    with (
        socket.create_connection((parts.hostname, parts.port)) as bare,
        connect(
            f"ws://{parts.netloc}{path}",
            sock=bare,
            subprotocols=[Subprotocol("streamlit")],
            additional_headers={"Origin": origin, **headers},
            max_size=None,
            proxy=None,
        ) as websocket,
    ):
        yield websocket


def _cookie(client: httpx.Client) -> str:
    return f"crossner_session={client.cookies['crossner_session']}"


def _rerun(page: str = "") -> bytes:
    message = BackMsg()
    message.rerun_script.query_string = ""
    message.rerun_script.page_name = page
    return message.SerializeToString()


def _run(websocket: ClientConnection, page: str = "") -> str:
    """Run the script once and return everything it sent, as text."""
    websocket.send(_rerun(page))
    sent: list[str] = []
    while True:
        message = ForwardMsg.FromString(_bytes(websocket.recv(timeout=30)))
        sent.append(str(message))
        if message.WhichOneof("type") == "script_finished":
            return "\n".join(sent)


def _bytes(received: str | bytes) -> bytes:
    assert isinstance(received, bytes)
    return received


def test_fresh_server_serves_nothing_to_a_stranger(served: Served) -> None:
    assert len(served.fresh) == len(KNOCKS) > 150
    for (method, path), answer in served.fresh.items():
        where = f"{method} {path} → {answer.status_code}"
        assert answer.status_code in (401, 303), where
        if answer.status_code == 303:
            assert answer.headers["location"].startswith("/auth/login"), where
        assert answer.text in ("", "Sign in first."), where
        assert "set-cookie" not in answer.headers, where


def test_fresh_server_opens_no_websocket_to_a_stranger(served: Served) -> None:
    assert set(served.fresh_sockets.values()) == {403}


def test_every_route_of_the_app_is_behind_the_gate(served: Served) -> None:
    code = "import app\nfor r in app.app._build_starlette_app().routes: print(r.path)"
    listed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [line for line in listed.stdout.splitlines() if line or line == ""]
    assert "/auth/login" in paths and len(paths) > 10
    answers = {}
    for path in paths:
        concrete = "/".join("x" if part.startswith("{") else part for part in path.split("/")) or "/"
        answers[path] = httpx.get(served.url + concrete).status_code
    opened = {path: status for path, status in answers.items() if status != 401}
    assert opened == {"/auth/login": 200, "/health": 200, "/auth/oidc": 404, "/auth/oidc/callback": 404}


def test_stranger_reaches_sign_in_and_health_alone(served: Served) -> None:
    assert httpx.get(f"{served.url}/health").text == "ok"
    page = httpx.get(f"{served.url}/auth/login")
    assert page.status_code == 200 and "<script" not in page.text and "src=" not in page.text
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):
        assert httpx.request(method, f"{served.url}/auth/login").status_code == 401
        assert httpx.request(method, f"{served.url}/health").status_code == 401


def test_redirect_to_sign_in_remembers_the_page(served: Served) -> None:
    answer = httpx.get(f"{served.url}/annotate?campaign=3", headers={"accept": "text/html"})
    assert answer.headers["location"] == "/auth/login?next=/annotate%3Fcampaign%3D3"
    with httpx.Client(base_url=served.url) as client:
        form = client.get(answer.headers["location"])
        assert 'value="/annotate?campaign=3"' in form.text


@pytest.mark.parametrize("path", ["/", "/health", "/auth/login", "/people"])
def test_every_answer_carries_security_headers(served: Served, path: str) -> None:
    headers = httpx.get(served.url + path).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin" and headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_signed_in_person_gets_the_app(served: Served) -> None:
    with served.sign_in() as client:
        assert "<title>Streamlit</title>" in client.get("/").text
        with _socket(served.url, Cookie=_cookie(client)) as websocket:
            assert "Ann" in _run(websocket)


@pytest.mark.parametrize("cookie", ["", "crossner_session=", "crossner_session=" + "a" * 43, "crossner_session=%00"])
def test_websocket_needs_a_real_session(served: Served, cookie: str) -> None:
    assert _refused_with(served.url, "/_stcore/stream", Cookie=cookie) == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example"])
def test_websocket_from_another_site_is_refused(served: Served, origin: str) -> None:
    with served.sign_in() as client:
        assert _refused_with(served.url, "/_stcore/stream", Cookie=_cookie(client), origin=origin) == 403


def test_page_of_another_role_is_not_run(served: Served) -> None:
    with served.sign_in("ann") as client, _socket(served.url, Cookie=_cookie(client)) as websocket:
        shown = _run(websocket, "people")
    assert "People is for admins; you are signed in as annotator" in shown.replace("\\", "")
    assert "Who may sign in" not in shown and "page_not_found" not in shown
    with served.sign_in("adm") as client, _socket(served.url, Cookie=_cookie(client)) as websocket:
        assert "Who may sign in" in _run(websocket, "people")


@pytest.mark.parametrize("how", ["sign out", "sign out everywhere"])
def test_open_websocket_ends_with_its_session(served: Served, how: str) -> None:
    with served.sign_in() as client, _socket(served.url, Cookie=_cookie(client)) as websocket:
        _run(websocket)
        token = client.cookies["crossner_session"]
        if how == "sign out":
            sign_out(served.store, token)
        else:
            admin = accounts.operator(served.store)
            person = next(one for one in accounts.list_people(served.store, admin) if one.name == "ann")
            accounts.sign_out_everywhere(served.store, admin, person.id)
        websocket.send(_rerun())
        heard: list[ForwardMsg] = []
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                heard.append(ForwardMsg.FromString(_bytes(websocket.recv(timeout=10))))
        assert heard[-1].auth_redirect.url.startswith("/auth/login")
        assert not any(message.WhichOneof("type") == "new_session" for message in heard)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401
        assert client.get("/", headers={"accept": "text/html"}).status_code == 303


def test_download_belongs_to_the_session_it_was_made_for(served: Served) -> None:
    with (
        served.sign_in("adm") as admin,
        served.sign_in("ann") as annotator,
        served.sign_in("adm") as elsewhere,
        _socket(served.url, Cookie=_cookie(admin)) as websocket,
    ):
        shown = _run(websocket, "domains")
        offered = re.search(r"/media/[\w.]+", shown)
        assert offered, shown
        assert admin.get(offered[0]).status_code == 200
        for other in (annotator, elsewhere):
            for path in (offered[0], offered[0] + "?x=1", "/media/" + "a" * 56 + ".toml", "/media/"):
                assert other.get(path).status_code == 404


@pytest.mark.alone
def test_answers_do_not_wait_for_nagle(served: Served) -> None:
    with httpx.Client(base_url=served.url) as client:
        seconds = sorted(client.get("/health").elapsed.total_seconds() for _ in range(15))
    assert seconds[len(seconds) // 2] < 0.03


def test_taken_port_gives_one_line_and_the_next_step(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        environment = os.environ | {"CROSSNER_HOME": str(tmp_path), "CROSSNER_PORT": str(port)}
        ended = subprocess.run(
            [sys.executable, "-m", "workbench.http.server"], cwd=ROOT, env=environment, capture_output=True, text=True
        )
    assert ended.returncode == 2 and ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert f"Port {port}" in ended.stderr and f"CROSSNER_PORT={port + 1}" in ended.stderr


def test_page_list_has_no_page_without_roles() -> None:
    screens = [screen for section in SECTIONS.values() for screen in section]
    assert all(screen.roles for screen in screens)
    assert len({screen.file for screen in screens}) == len(screens)


def test_no_pages_folder_beside_the_main_script() -> None:
    """Streamlit's legacy discovery would serve it before the page list has been made."""
    assert not (ROOT / "pages" / "pages").exists()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_browser_signs_in_sees_start_and_signs_out(served: Served) -> None:
    problems: list[str] = []

    def heard(message: Any) -> None:
        if "Content Security Policy" in message.text:
            problems.append(message.text)

    with browser_page(served.url, viewport={"width": 1280, "height": 800}) as page:
        page.on("console", heard)
        page.on("request", lambda request: problems.append(request.url) if "127.0.0.1" not in request.url else None)
        browser_sign_in(page, "ann", PASSWORD)
        assert page.get_by_role("heading", name="Good to see you, Ann").is_visible()
        page.get_by_text("Ann · annotator").wait_for()
        assert page.get_by_role("link", name="People").count() == 0
        page.get_by_role("button", name="Sign out").click()
        page.get_by_text("You are signed out.").wait_for()
        page.goto("/account")
        assert "/auth/login?next=/account" in page.url
    assert [text for text in problems if not text.startswith(("data:", "blob:"))] == []


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_browser_is_sent_to_sign_in_when_its_session_is_revoked(served: Served) -> None:
    with browser_page(served.url) as page:
        browser_sign_in(page, "adm", PASSWORD, path="/account")
        button = page.get_by_role("button", name="Sign out my other browsers")
        button.wait_for()  # the heading is drawn first: revoked between the two, the page would never get its button
        admin = accounts.operator(served.store)
        accounts.sign_out_everywhere(served.store, admin, admin.id)
        button.click()
        page.get_by_text("You are signed out.").wait_for(timeout=15_000)
        assert "/auth/login" in page.url


def test_what_commands_write_is_for_its_owner_only(tmp_path: Path) -> None:
    environment = {**os.environ, "CROSSNER_HOME": str(tmp_path / "home")}
    command = 'umask 022; exec "$0" -m workbench user add --role admin ada'
    subprocess.run(["sh", "-c", command, sys.executable], cwd=ROOT, env=environment, check=True, timeout=60)
    written = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert written and all(path.stat().st_mode & 0o077 == 0 for path in written)
