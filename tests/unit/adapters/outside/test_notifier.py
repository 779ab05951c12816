"""Letters become real files in real mailboxes, and a mailbox that hangs keeps nobody waiting for ever."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from parley import settings, wiring
from parley.adapters.outside.notifier import MailboxNotifier
from parley.domain.errors.errors import ParleyError, Unavailable, UnknownProject
from parley.domain.exchange.notice import Letter
from parley.sdk.mailbox import Mailbox
from tests.rigs.team import in_loop, soon

LETTER = Letter(
    "alice to bob: commitment waits for you", "Decide.\n", urgent=True, expires_at="2999-01-01T00:00:00.000000Z"
)


def notifier(home: Path, **more: str) -> MailboxNotifier:
    environ = {"HOME": str(home), "PARLEY_APPROVALS_HOME": str(home / "oacp"), **more}
    found = wiring.open_notifier(settings.load({}, environ))
    assert found is not None
    return found


@in_loop
async def test_a_letter_lies_in_the_persons_inbox_as_a_notification(tmp_path: Path) -> None:
    home = tmp_path / "oacp"
    wiring.create_project(str(home), "people", ("ann",))
    carrier = notifier(tmp_path)

    carried = [await carrier.notify("ann", LETTER), await carrier.notify("ann", LETTER)]

    assert carried == [True, True]
    first = Mailbox("people", agent="ann", home=home).inbox()[0]
    assert (first.sender, first.kind, first.priority, first.subject) == (
        "parley",
        "notification",
        "P1",
        LETTER.subject,
    )
    assert first.expires_at.startswith("2999-01-01")
    carrier.close()


@in_loop
async def test_who_has_no_folder_gets_no_letter_and_nothing_is_made_for_it(tmp_path: Path) -> None:
    home = tmp_path / "oacp"
    wiring.create_project(str(home), "people", ("ann",))
    carrier = notifier(tmp_path)

    assert not await carrier.notify("ben", LETTER)
    assert not await carrier.notify("ada@example.org", LETTER)
    assert not await carrier.notify("../ann", LETTER)

    assert sorted(one.name for one in (home / "projects" / "people" / "agents").iterdir()) == ["ann"]
    carrier.close()


@in_loop
async def test_the_settings_name_the_project_and_who_the_sender_is(tmp_path: Path) -> None:
    home = tmp_path / "oacp"
    for project in ("people", "others"):
        wiring.create_project(str(home), project, ("ann",))
    carrier = notifier(tmp_path, PARLEY_APPROVALS_PROJECT="others", PARLEY_APPROVALS_AGENT="gatekeeper")

    await carrier.notify("ann", LETTER)

    assert [one.sender for one in Mailbox("others", agent="ann", home=home).inbox()] == ["gatekeeper"]
    assert Mailbox("people", agent="ann", home=home).inbox() == []
    carrier.close()


@in_loop
async def test_a_home_that_is_not_there_is_an_error_to_be_tried_again(tmp_path: Path) -> None:
    carrier = notifier(tmp_path)

    with pytest.raises(UnknownProject) as refusal:
        await carrier.notify("ann", LETTER)

    assert isinstance(refusal.value, ParleyError)
    carrier.close()


@in_loop
async def test_a_mailbox_that_hangs_is_given_up_and_keeps_nobody_waiting_a_second_time() -> None:
    goes_on, asked = threading.Event(), []

    def deliver(user: str, letter: Letter) -> bool:
        asked.append(user)
        return goes_on.wait(10) and letter is LETTER

    carrier = MailboxNotifier(deliver, seconds=0.05)

    with pytest.raises(Unavailable, match="in time"):
        await carrier.notify("ann", LETTER)
    with pytest.raises(Unavailable, match="still being written"):
        await carrier.notify("ben", LETTER)
    goes_on.set()

    async def carried() -> bool:
        try:
            return await carrier.notify("ben", LETTER)
        except Unavailable:
            return False

    await soon(carried)
    # On a busy machine even a mailbox that answers may not do so in time: then it is asked again.
    assert (asked[0], set(asked[1:])) == ("ann", {"ben"})
    carrier.close()


def test_without_a_home_there_is_nobody_who_carries_letters(tmp_path: Path) -> None:
    assert wiring.open_notifier(settings.load({}, {"HOME": str(tmp_path)})) is None
