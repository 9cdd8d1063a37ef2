"""The two server-rendered pages, sign-in and sign-out: plain HTML, no script, light and dark, narrow and wide."""

from __future__ import annotations

from html import escape
from urllib.parse import quote

from starlette.responses import HTMLResponse

from workbench.http.headers import FORM_POLICY

_STYLE = """
:root { color-scheme: light dark; --back: #f6f7f9; --card: #ffffff; --ink: #1d2530; --soft: #5a6675;
  --line: #cfd6df; --accent: #1f5fa8; --on-accent: #ffffff; --bad: #9c2b22; --bad-back: #fbeceb; }
@media (prefers-color-scheme: dark) { :root { --back: #14181d; --card: #1c2229; --ink: #e6ebf1; --soft: #a1adba;
  --line: #3b4652; --accent: #7db2f0; --on-accent: #0d1520; --bad: #ffb4ab; --bad-back: #3b211f; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--back);
  color: var(--ink); font: 16px/1.5 "Source Sans 3", "Source Sans Pro", system-ui, sans-serif; }
main { width: 100%; max-width: 24rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 1.5rem; }
h1 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .25rem; }
p { margin: 0 0 1rem; color: var(--soft); }
label { display: block; font-weight: 600; margin: 0 0 .25rem; }
input { width: 100%; font: inherit; color: inherit; background: var(--back); border: 1px solid var(--line);
  border-radius: 6px; padding: .5rem .625rem; margin: 0 0 1rem; }
button, .button { display: block; width: 100%; font: inherit; font-weight: 600; color: var(--on-accent);
  background: var(--accent); border: 1px solid var(--accent); border-radius: 6px; padding: .625rem; cursor: pointer;
  text-align: center; text-decoration: none; overflow-wrap: anywhere; }
.or { display: flex; align-items: center; gap: .75rem; margin: 1rem 0; }
.or::before, .or::after { content: ""; flex: 1; border-top: 1px solid var(--line); }
.provider ~ form button { color: var(--accent); background: transparent; }
input:focus-visible, button:focus-visible, a:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.problem { color: var(--bad); background: var(--bad-back); border-radius: 6px; padding: .5rem .75rem; }
.foot { margin: 1rem 0 0; font-size: .875rem; }
a { color: var(--accent); }
"""


def page(title: str, body: str, *, status: int = 200) -> HTMLResponse:
    """Wrap a body that is HTML already; `title` is escaped here."""
    text = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · CrossNER workbench</title>"
        '<link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    )
    return HTMLResponse(text, status, headers={"content-security-policy": FORM_POLICY})


def sign_in_page(
    *,
    token: str,
    target: str,
    name: str = "",
    problem: str = "",
    notice: str = "",
    provider: str = "",
    show_local: bool = True,
    status: int = 200,
) -> HTMLResponse:
    """Show the sign-in form; `problem` states why the last attempt failed, `notice` what happened before.

    `provider` is the name of the sign-in provider, if there is one; `show_local` shows name and password, too.
    """
    message = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    message += f'<p role="status">{escape(notice)}</p>' if notice else ""
    following = quote(target, safe="/")
    if provider:
        message += f'<a class="button provider" href="/auth/oidc?next={following}">Sign in with {escape(provider)}</a>'
        message += '<p class="or">or</p>' if show_local else ""
    form = _local_form(token, target, name, has_focus=not provider)
    other = f'<p class="foot"><a href="/auth/login?local=1&amp;next={following}">Sign in with a password</a></p>'
    body = f"""<h1>CrossNER workbench</h1><p>Sign in to annotate, check, adjudicate or retrain.</p>{message}
{form if show_local else other}
<p class="foot">No account, or a lost password? An admin of this workbench can help.</p>"""
    return page("Sign in", body, status=status)


def _local_form(token: str, target: str, name: str, *, has_focus: bool) -> str:
    focus_name, focus_password = ("", " autofocus") if name else (" autofocus" if has_focus else "", "")
    return f"""<form method="post" action="/auth/login">
<input type="hidden" name="form_token" value="{escape(token)}">
<input type="hidden" name="next" value="{escape(target)}">
<label for="name">Name</label>
<input id="name" name="name" value="{escape(name)}" autocomplete="username" autocapitalize="none" spellcheck="false"
 maxlength="100" required{focus_name}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1000"
 required{focus_password}>
<button type="submit">Sign in</button></form>"""


def leave_page(title: str, line: str, *, url: str, link: str) -> HTMLResponse:
    """Send the browser elsewhere; no redirect, as a form of a page with our content policy may not end elsewhere."""
    body = f"""<meta http-equiv="refresh" content="0;url={escape(url)}"><h1>{escape(title)}</h1><p>{escape(line)}</p>
<a class="button" href="{escape(url)}">{escape(link)}</a>"""
    return page(title, body)


def note_page(title: str, line: str, *, back: str = "/auth/login", link: str = "Sign in again") -> HTMLResponse:
    """Say something, with a way on."""
    body = f"""<h1>{escape(title)}</h1><p role="status">{escape(line)}</p>
<p class="foot"><a href="{escape(back)}">{escape(link)}</a></p>"""
    return page(title, body)


def link_page(*, token: str, display_name: str, provider: str) -> HTMLResponse:
    """Ask for the one click that links an identity at the provider to one's account."""
    title = f"Link {provider}?"
    body = f"""<h1>{escape(title)}</h1><p>You are signed in as {escape(display_name)}. Whoever signs in with
{escape(provider)} next, in this browser, opens this account from then on.</p>
<form method="post" action="/auth/oidc/link"><input type="hidden" name="form_token" value="{escape(token)}">
<button type="submit">Go to {escape(provider)}</button></form>
<p class="foot"><a href="/account">Back to My account</a></p>"""
    return page(title, body)


def sign_out_page(*, token: str, display_name: str) -> HTMLResponse:
    """Ask for the one click that signs out (a link alone must not, or any page could do it)."""
    body = f"""<h1>Sign out?</h1><p>You are signed in as {escape(display_name)}. Your work is saved.</p>
<form method="post" action="/auth/logout"><input type="hidden" name="form_token" value="{escape(token)}">
<button type="submit">Sign out</button></form><p class="foot"><a href="/">Back to the workbench</a></p>"""
    return page("Sign out", body)
