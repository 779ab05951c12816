"""Take the pictures of the console: play the story of `parley demo` on a server, and open every page in Chromium.

    record_console.py              every picture, in docs/pictures/console
    record_console.py NAME ...     these alone

Each page gives two files: NAME.png, light and as wide as a desk, and NAME-views.png, which has the other views side by
side: dark on a desk, then light and dark on a phone. One exchange is also taken on paper. The people sign in by links
that work once, as anybody does. Names and messages are those of the demo, so a picture that is taken again differs in
its times and ids only.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from parley.cli.demo.demo import Demo, login_links, open_demo  # noqa: E402
from parley.cli.demo.narration import Narrator  # noqa: E402
from parley.cli.demo.story import INTENT  # noqa: E402
from parley.domain.errors.rules import MessageHeld  # noqa: E402
from tests.rigs.browser import Page, a_browser  # noqa: E402
from tests.rigs.webhook_receiver import receiving  # noqa: E402
from tools.palette import as_palette, side_by_side, with_margin  # noqa: E402

PICTURES = ROOT / "docs" / "pictures" / "console"
WIDTH, PHONE_WIDTH = 1280, 390
# A longer page is cut: a picture shows the page, not all of its rows.
_MIN_HEIGHT, _MAX_HEIGHT, _PHONE_HEIGHT = 800, 860, 844
_CONDITION_SECONDS, _LOOK_AGAIN_SECONDS = 60, 0.05
_MAILBOXES, _STRANGER = "mailboxes", "stranger"
_CONVERSATION = "acme-launch"
_SECOND_POLICY = "agent-to-agent:\n  commitment_words: [deadline, refund]\n  approval_hours: 8\n"
_LOADED = "location.pathname !== '/console/login' && document.readyState === 'complete'"
# Set by script: a style sheet of ours would be against the policy of the page.
_WITHOUT_SCROLLBARS = "for (const element of document.querySelectorAll('*')) element.style.scrollbarWidth = 'none'"


class View(NamedTuple):
    """How a page is looked at: the theme, and how wide it is."""

    scheme: str
    width: int


FIRST_VIEW = View("light", WIDTH)
OTHER_VIEWS = (View("dark", WIDTH), View("light", PHONE_WIDTH), View("dark", PHONE_WIDTH))
SHEET_SUFFIX = "-views"
# What a security officer files: the exchange on paper, as wide as A4 between its margins.
PAPER = "exchange-paper"
_PAPER_WIDTH, _PAPER_MARGIN, _WHITE = 703, 45, (255, 255, 255)
# Between the pictures of a sheet, so that each ends somewhere on a white and on a black page.
_SHEET_GAP, _SHEET_GROUND = 24, (128, 128, 128)


class Shot(NamedTuple):
    """A page to take: whose console, and which page of it. `steps` is the page as ROUTES names it; `follow` gives the
    link to it on the page at `path`, `act` a script that fills in a form, after which `wait` becomes true.
    """

    name: str
    visitor: str
    steps: tuple[str, ...]
    path: str
    follow: str = ""
    act: str = ""
    wait: str = "true"


_TRY = (
    "const form = document.querySelector('form.stacked');"
    "const values = {sender: 'quinn', to: 'erik', text: 'We promise Acme ten seats.'};"
    "for (const [name, value] of Object.entries(values)) form.elements[name].value = value;"
    "form.requestSubmit(); true"
)
# The first link to one thing of a list, and the link of the row that says both.
_FIRST = "document.querySelector('main :is(td, li) a[href^=\"/console/{0}/\"]')"
_ROW = (
    "[...document.querySelectorAll('main tr')].find((row) =>"
    " row.innerText.includes('{0}') && row.innerText.includes('{1}')).querySelector('th a')"
)
SHOTS = (
    Shot("home", "admin", (), "/console"),
    Shot("approvals", "bob", ("approvals",), "/console/approvals"),
    Shot("approval", "bob", ("approvals", "*"), "/console/approvals", _FIRST.format("approvals"),
         wait="document.documentElement.dataset.read === 'yes'"),
    Shot("channels", "admin", ("channels",), "/console/channels"),
    Shot("channel", "admin", ("channels", "*"), "/console/channels", _FIRST.format("channels")),
    Shot("thread", "admin", ("threads", "*"), f"/console/threads/{_CONVERSATION}"),
    Shot("agents", "admin", ("agents",), "/console/agents"),
    Shot("agent", "admin", ("agents", "*"), "/console/agents/erik"),
    Shot("traffic", "admin", ("traffic",), "/console/traffic"),
    Shot("exchanges", "admin", ("exchanges",), "/console/exchanges"),
    Shot("exchange", "admin", ("exchanges", "*"), "/console/exchanges", _ROW.format("waits for a person", "1 of 6")),
    Shot("audit", "admin", ("audit",), "/console/audit"),
    Shot("entry", "admin", ("audit", "*"), "/console/audit?outcome=denied", _ROW.format("→", "confidential")),
    Shot("policies", "admin", ("policies",), "/console/policies"),
    Shot("difference", "admin", ("policies", "diff"), "/console/policies",
         "document.querySelector('main td a[href*=\"/policies/diff?\"]')"),
    Shot("try", "admin", ("policies", "try"), "/console/policies/try", act=_TRY,
         wait="document.body.innerText.includes('keywords')"),
    Shot("suspend", "admin", ("suspend",), "/console/suspend?what=agent&name=tess"),
    Shot("servers", "admin", ("servers",), "/console/servers"),
    Shot("webhooks", "admin", ("webhooks",), "/console/webhooks"),
    Shot("sessions", "bob", ("sessions",), "/console/sessions"),
    Shot("sign-in", _STRANGER, ("login",), "/console/login"),
    Shot("mailboxes", _MAILBOXES, (), "/console"),
)  # fmt: skip
# Pages that show one thing of a page which has a picture.
WITHOUT_PICTURE = {
    ("channels", "*", "messages", "*"),
    ("policies", "*", "*"),
    ("webhooks", "*"),
}


# ---------------------------------------------------------------- the story


@asynccontextmanager
async def played_demo(folder: Path) -> AsyncIterator[Demo]:
    """The demo after two rounds of the story: much is decided, and something waits for each person."""
    silent = Narrator(asyncio.Event(), is_silent=True)
    async with receiving() as receiver, open_demo(str(folder), silent) as demo:
        ann, bob, admin = [visitor.client for visitor in demo.visitors]
        await demo.story.begin(demo.agents)
        for approval in await bob.list_approvals("pending"):
            await bob.approve(approval)
        for approval in await ann.list_approvals("pending"):
            await ann.reject(approval, "Not before the tests pass.")

        async def is_decided() -> bool:
            return not demo.story.is_waiting

        await _until(is_decided)
        # Before the second round: what already waits would be held under another version.
        await admin.put_policy("org", "engineering", _SECOND_POLICY)
        await demo.story.tell_round()
        await demo.agents["erik"].subscribe(receiver.url)
        await _talk(demo)
        await receiver.until(1)

        async def three_wait() -> bool:
            return len(await admin.list_approvals("pending")) == 3

        await _until(three_wait)
        yield demo


async def _until(is_reached: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_CONDITION_SECONDS):
        while not await is_reached():  # noqa: ASYNC110  # nothing announces it
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def _talk(demo: Demo) -> None:
    """A conversation in three channels, and one more message for bob to decide about."""
    for agent, channel, to, text, conversation in (
        ("sally", "prices", "quinn", "Acme wants twelve seats instead of ten.", _CONVERSATION),
        ("sally", "desk", "erik", "Can the servers carry twelve seats for Acme?", _CONVERSATION),
        ("erik", "tests", "tess", "Please measure with twelve seats.", _CONVERSATION),
        ("tess", "desk", "quinn", "Twelve seats work: 180 ms at most.", _CONVERSATION),
        ("erik", "desk", "sally", "We guarantee Acme twelve seats and an answer within 200 ms.", "acme-seats"),
    ):
        client, metadata = demo.agents[agent], {"conversation_id": conversation}
        opened = await client.open_channel(INTENT, channel)
        with suppress(MessageHeld):
            await client.send_message(opened, agent, to, "notify", {"text": text}, metadata=metadata)


# ---------------------------------------------------------------- mailboxes


@contextmanager
def mailbox_link(home: Path) -> Iterator[str]:
    """The link to the console of a project's mailboxes, in which two agents have talked."""
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    parley = str(Path(sys.executable).parent / "parley")
    for words in (
        ("init", "demo", "--agents", "claude,codex"),
        ("send", "codex", "mTLS or JWT for internal calls?", "--from", "claude"),
        ("next", "--agent", "codex"),
        ("reply", "Signed JWTs, 5 minutes.", "--agent", "codex"),
        ("send", "codex", "Please review the login.", "--from", "claude"),
    ):
        subprocess.run([parley, *words], cwd=home, env=environment, check=True, stdout=subprocess.DEVNULL)
    line = [parley, "console", "--project", "demo", "--json"]
    with subprocess.Popen(line, cwd=home, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


# ---------------------------------------------------------------- pictures


async def take(page: Page, address: str, shot: Shot, view: View) -> bytes:
    """Open a page, and take a picture of it."""
    phone = view.width == PHONE_WIDTH
    await page.prefer(view.scheme)
    await page.resize(view.width, _PHONE_HEIGHT if phone else _MIN_HEIGHT)
    await page.go(f"{address}{shot.path}")
    if shot.follow:
        await page.go(address + await page.run(f"({shot.follow}).getAttribute('href')"))
    if shot.act:
        await page.run(shot.act)
    await page.until(f"document.readyState === 'complete' && ({shot.wait})")
    if not phone:
        height = await page.run("document.documentElement.scrollHeight")
        await page.resize(view.width, min(max(height, _MIN_HEIGHT), _MAX_HEIGHT))
    await page.run(_WITHOUT_SCROLLBARS)
    await page.run("document.fonts.ready.then(() => new Promise(requestAnimationFrame))")
    return await page.picture()


async def take_on_paper(page: Page, address: str, shot: Shot) -> bytes:
    """A page as it is printed."""
    await take(page, address, shot, FIRST_VIEW)
    await page.emulate_print()
    await page.run("dispatchEvent(new Event('beforeprint'))")
    await page.resize(_PAPER_WIDTH, 100)
    await page.resize(_PAPER_WIDTH, await page.run("document.documentElement.scrollHeight"))
    picture = await page.picture()
    await page.emulate_print(on=False)
    return picture


Pictures = dict[tuple[str, View], bytes]


async def record(shots: list[Shot], views: tuple[View, ...], home: Path, mailboxes: str) -> Pictures:
    """The pictures by name and view, as the browser takes them."""
    pictures: Pictures = {}
    async with played_demo(home) as demo:
        links = {**await login_links(demo.server, demo.visitors), _MAILBOXES: mailboxes}
        links[_STRANGER] = f"{links['admin'].partition('/console')[0]}/console/login"
        for visitor in dict.fromkeys(shot.visitor for shot in shots):
            mine = [shot for shot in shots if shot.visitor == visitor]
            async with a_browser(home / f"profile-{visitor}") as page:
                await page.open(links[visitor])
                if visitor != _STRANGER:
                    await page.until(_LOADED)
                address = links[visitor].partition("/console")[0]
                for shot in mine:
                    pictures |= {(shot.name, view): await take(page, address, shot, view) for view in views}
                    if shot.name == "exchange":
                        pictures[PAPER, FIRST_VIEW] = await take_on_paper(page, address, shot)
                if page.errors:
                    raise SystemExit("\n".join(page.errors))
    return pictures


def save(folder: Path, names: list[str]) -> None:
    """Write the pictures of these names, or all, into a folder."""
    shots = [shot for shot in SHOTS if not names or shot.name in names]
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        # The receiver of the webhook is on this machine.
        (home / ".config" / "parley").mkdir(parents=True)
        (home / ".config" / "parley" / "parley.toml").write_text('webhook_targets = "any"\n', encoding="utf-8")
        with mailbox_link(home) as mailboxes:
            pictures = asyncio.run(record(shots, (FIRST_VIEW, *OTHER_VIEWS), home, mailboxes))
    folder.mkdir(parents=True, exist_ok=True)
    if (PAPER, FIRST_VIEW) in pictures:
        (folder / f"{PAPER}.png").write_bytes(with_margin(pictures[PAPER, FIRST_VIEW], _PAPER_MARGIN, _WHITE))
    for shot in shots:
        (folder / f"{shot.name}.png").write_bytes(as_palette(pictures[shot.name, FIRST_VIEW]))
        others = [pictures[shot.name, view] for view in OTHER_VIEWS]
        (folder / f"{shot.name}{SHEET_SUFFIX}.png").write_bytes(side_by_side(others, _SHEET_GAP, _SHEET_GROUND))


if __name__ == "__main__":
    save(PICTURES, sys.argv[1:])
