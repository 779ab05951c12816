"""The console of mailboxes: who may open it, what it shows, and that looking changes nothing."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parley import Mailbox, wiring
from parley.app.mailbox import read
from parley.settings import load
from parley.surfaces.http.http1.message import Request, Response
from parley.surfaces.mailbox_console.console import LINK_SECONDS, MailboxConsole, Secrets

HOSTILE = "<script>alert(1)</script>\u202e\u200b<img src=x onerror=alert(2)>"
HOST = "127.0.0.1:4000"
PAGES = ["agents", "agents/codex", "agents/claude/sent", "threads", "reviews", "waiting", "dead-letters"]


class Browser:
    """Somebody who has opened the link, and sends what they are told to."""

    def __init__(self, home: Path) -> None:
        self.seconds = 0.0
        project = wiring.open_project_reader(str(home), "demo", load({}))
        self.console = MailboxConsole(
            project,
            Secrets("link", "cookie"),
            now=lambda: datetime.now(UTC),
            monotonic=lambda: self.seconds,
        )
        self.cookie = "parley-4000=cookie"

    def open(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Response:
        fields = {
            "host": HOST,
            "cookie": self.cookie,
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        given = {name.encode(): text.encode() for name, text in fields.items() if text}
        return self.console(Request(method, path, path.encode(), "", given, body))

    def follow_link(self, secret: str, **headers: str) -> Response:
        body = f"once={secret}".encode()
        return self.open("/console/login", "POST", body, **{"sec_fetch_site": "same-origin", "cookie": "", **headers})

    def text(self, path: str) -> str:
        answer = self.open(f"/console/{path}")
        assert answer.status == 200, answer.body
        return answer.body.decode()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Mailboxes with a question, a review, an answer and a file that was put aside; all of it hostile."""
    wiring.create_project(str(tmp_path), "demo", ("claude", "codex"))
    with (
        Mailbox("demo", agent="claude", home=tmp_path) as claude,
        Mailbox("demo", agent="codex", home=tmp_path) as codex,
    ):
        claude.send("codex", "question", f"Why? {HOSTILE}", f"Why {HOSTILE}?")
        body = {"pr": "12", "branch": "parser", "diff_summary": HOSTILE}
        claude.send("codex", "review_request", f"Review {HOSTILE}", body)
        codex.send("claude", "notification", "For your information", HOSTILE)
        (tmp_path / "projects/demo/agents/codex/inbox/bad.yaml").write_text(HOSTILE, encoding="utf-8")
        os.utime(tmp_path / "projects/demo/agents/codex/inbox/bad.yaml", (0, 0))
        while message := codex.next():
            codex.release(message)
            break
    return tmp_path


def everything(home: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder below a home: when it was changed, and what is in it."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(home.rglob("*"))
    }


def links_in(page: str) -> list[str]:
    return re.findall(r'href="/console/((?:agents|threads)/[^"]*)"', page)


def test_the_link_works_once_and_for_ten_minutes(tmp_path: Path) -> None:
    wiring.create_project(str(tmp_path), "demo", ())
    browser, late = Browser(tmp_path), Browser(tmp_path)

    wrong, first, second = (browser.follow_link(secret) for secret in ("other", "link", "link"))
    late.seconds += LINK_SECONDS + 1

    assert (wrong.status, first.status, second.status, late.follow_link("link").status) == (401, 303, 401, 401)
    cookie = b"parley-4000=cookie; Path=/console; HttpOnly; SameSite=Strict; Max-Age=43200"
    assert dict(first.headers)[b"Set-Cookie"] == cookie
    assert b"Content-Security-Policy" in dict(second.headers)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "rebound.example:4000"}, 403),
        ({"host": ""}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "https://elsewhere.example"}, 403),
        ({"cookie": ""}, 303),
        ({"cookie": "parley-4000=wrong"}, 303),
        ({"cookie": "parley-5000=cookie"}, 303),
        ({"host": "localhost:4000"}, 200),
    ],
)
def test_only_the_browser_of_the_link_reads_and_only_by_a_name_of_this_machine(
    home: Path, headers: dict[str, str], status: int
) -> None:
    answer = Browser(home).open("/console/agents", "GET", b"", **headers)

    assert answer.status == status
    assert (b"codex" in answer.body) == (status == 200)


def test_forms_of_other_pages_and_everything_that_writes_are_refused(home: Path) -> None:
    browser = Browser(home)

    refused = [browser.follow_link("link", sec_fetch_site=site).status for site in ("same-site", "cross-site")]
    written = [browser.open("/console/agents", method).status for method in ("POST", "PUT", "DELETE", "PATCH")]

    assert (refused, written) == ([403, 403], [405] * 4)
    assert browser.follow_link("link").status == 303  # a refusal did not use it up


def test_every_page_shows_hostile_text_as_text_and_changes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a mailbox with so many files that commands keep an index of it.
    monkeypatch.setattr(read, "_MANY", 1)
    before = everything(home)
    browser = Browser(home)

    pages = {path: browser.text(path) for path in PAGES}
    linked = {path for page in pages.values() for path in links_in(page)}
    pages |= {path: browser.text(path) for path in linked}

    assert len(pages) > len(PAGES) + 3
    for path, page in pages.items():
        assert "<script>alert" not in page, path
        assert "<img src=x" not in page, path
        assert "\u202e" not in page, path
    assert "&lt;script&gt;" in pages["threads"]
    assert '<span class="hid" title="zero width space">U+200B</span>' in pages["agents/codex"]
    assert everything(home) == before


def test_the_pages_say_what_waits_who_owes_and_what_was_put_aside(home: Path) -> None:
    browser = Browser(home)

    assert ">requested</span>" in browser.text("reviews")
    assert browser.text("waiting").count(' dir="auto">codex</td>') == 2
    assert "bad.yaml" in browser.text("dead-letters")
    assert "is no message" in browser.text("agents/codex/files/bad.yaml")
    assert browser.open("/console/agents/nobody").status == 404
    assert browser.open("/console/threads/none").status == 404
    assert browser.open("/console/nothing").status == 404


def test_an_agent_whose_ledger_is_broken_hides_no_other(home: Path) -> None:
    (home / "projects/demo/agents/codex/.parley/ledger.db").write_bytes(b"no database" * 100)

    page = Browser(home).text("agents")

    assert 'class="note bad"><b dir="auto">codex</b>' in page
    assert 'href="/console/agents/claude"' in page


def test_no_name_of_a_file_hides_the_others_and_every_link_leads_to_its_file(home: Path) -> None:
    names = [
        b"\xff\xfe.yaml",
        b"a\nb.yaml",
        b"\x1b[31m.yaml",
        b"%252e%2e%2f.yaml",
        b"a?b#c&d e.yaml",
        b"<b>\xe2\x80\xae.yaml",
    ]
    inbox = os.fsencode(home / "projects/demo/agents/codex/inbox")
    for name in names:
        Path(os.fsdecode(inbox + b"/" + name)).write_bytes(b"no message")
        os.utime(inbox + b"/" + name, (0, 0))
    browser = Browser(home)

    page = browser.text("agents/codex")
    links = [link for link in links_in(page) if "/files/" in link]

    assert "U+DCFF" in page
    # No address can have the first three.
    assert len(links) == 3
    for link in links:
        assert "no message" in browser.text(link)


def test_the_list_of_keys_has_only_those_that_do_something(home: Path) -> None:
    browser = Browser(home)
    table = browser.text("agents").partition("<dialog")[2]
    pages = [browser.text(path) for path in PAGES]

    shown = re.findall("<kbd>([^<]+)</kbd>", table)
    assert shown == ["j k", "u", ".", "t", "?", "[", "g e", "g c", "g r", "g w", "g d"]
    # What the other keys of the script would go to.
    assert not any(part in page for page in pages for part in ('id="decide"', 'class="filters"', 'rel="next"'))


def test_a_link_that_was_used_names_the_command_that_prints_another(home: Path) -> None:
    browser = Browser(home)
    browser.follow_link("link")

    for answer in (browser.follow_link("link"), browser.open("/console/login")):
        assert "<code>parley console --project NAME</code>" in answer.body.decode()
        assert "demo" not in answer.body.decode()
