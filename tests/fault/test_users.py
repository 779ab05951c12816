"""Several users of one machine: others may drop a message, and that is all they may do."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fault.history import look
from tests.fault.stage import Stage, agent_folder

pytestmark = [pytest.mark.fault, pytest.mark.usefixtures("root")]

GROUP = 54_100


class User(NamedTuple):
    """For `setuid`: user id, primary group, other groups."""

    uid: int
    gid: int
    groups: list[int]


OWNER = User(54_001, GROUP, [GROUP])
MEMBER = User(54_002, 54_102, [54_102, GROUP])
ANOTHER = User(54_003, 54_103, [54_103, GROUP])
STRANGER = User(54_004, 54_104, [54_104])


@pytest.fixture
def shared(stage: Stage) -> Iterator[Path]:
    """A project of OWNER, shared with a group; the agent `bob` in it belongs to MEMBER."""
    folder = Path(tempfile.mkdtemp(prefix="parley-users-"))
    try:
        os.chown(folder, OWNER.uid, GROUP)
        folder.chmod(0o755)
        home = folder / "home"
        made = stage.act("init", home, "", user=OWNER, umask=0, agents=["claude", "codex", "bob"], shared=True)
        assert made.said == ["ok"]
        for path in (agent_folder(home, "bob"), *agent_folder(home, "bob").rglob("*")):
            os.chown(path, MEMBER.uid, GROUP)
            if path.name == "inbox":  # changing the owner may take the special bits away
                path.chmod(0o3730)
        agent_folder(home, "bob").chmod(0o2710)
        yield home
    finally:
        shutil.rmtree(folder)


def inbox_of(home: Path, agent: str) -> Path:
    return agent_folder(home, agent) / "inbox"


def dropped(home: Path, agent: str) -> Path:
    [path] = inbox_of(home, agent).glob("*.yaml")
    return path


def test_another_user_of_the_group_can_drop_a_message_but_not_list_delete_or_replace_one(
    stage: Stage, shared: Path
) -> None:
    """A26"""
    # Given a message that one user dropped into the inbox of another
    assert stage.act("send", shared, "bob", user=MEMBER, tags=["hello"], to=["codex"]).said == ["ok hello"]
    path = str(dropped(shared, "codex"))
    inbox = str(inbox_of(shared, "codex"))

    # When a third one tries everything
    calls = [
        ("list", inbox),
        ("unlink", path),
        ("rename", path, f"{path}.away"),
        ("write", f"{inbox}/planted.yaml", "from: nobody"),
        ("rename", f"{inbox}/planted.yaml", path),
        ("write", path, "from: nobody"),
        ("chmod", path, 0o666),
    ]
    said = stage.act("poke", shared, "", user=ANOTHER, calls=calls).said

    # Then only dropping works, and the message is processed
    refused, denied = "Operation not permitted", "Permission denied"
    assert said == [
        f"list {denied}",
        f"unlink {refused}",
        f"rename {refused}",
        "write ok",
        f"rename {refused}",
        f"write {denied}",
        f"chmod {refused}",
    ]
    assert "hello" in stage.act("drain", shared, "codex", user=OWNER).acknowledged


def test_a_user_outside_the_group_cannot_even_drop(stage: Stage, shared: Path) -> None:
    """A26, A49"""
    inbox = inbox_of(shared, "codex")

    said = stage.act(
        "poke", shared, "", user=STRANGER, calls=[("list", str(inbox)), ("write", f"{inbox}/x.yaml", "x")]
    ).said

    assert said == ["list Permission denied", "write Permission denied"]


def test_what_others_may_not_see_is_closed_whatever_the_umask(stage: Stage, shared: Path) -> None:
    """A49"""
    # Given users who forbid nothing by their umask
    stage.act("send", shared, "bob", user=MEMBER, umask=0, tags=["hello"], to=["codex"])
    message = dropped(shared, "codex")
    stage.act("done", shared, "codex", user=OWNER, umask=0)

    # Then folders and files have the modes they were meant to have
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    codex, bob = agent_folder(shared, "codex"), agent_folder(shared, "bob")
    assert mode(codex / "inbox") == 0o3730
    assert {mode(codex / "inbox" / "archive" / message.name), mode(bob / "outbox" / message.name)} == {0o640}
    private = [codex / "outbox", codex / "dead_letter", codex / "inbox" / "archive", codex / ".parley", bob / ".parley"]
    assert {mode(path) for path in private} == {0o700}
    assert {mode(path) for path in (bob / ".parley").iterdir()} == {0o600}
    assert {mode(path) for path in (codex, codex.parent, shared / "projects" / "demo", shared)} == {0o2710}

    # And nobody else can look into them
    calls = [("list", str(path)) for path in (codex / "inbox", *private)]
    said = stage.act("poke", shared, "", user=ANOTHER, calls=calls).said
    assert said == ["list Permission denied"] * len(calls)


def test_a_file_of_another_user_than_the_agent_it_names_is_flagged(stage: Stage, shared: Path) -> None:
    """A9, with a warning"""
    files = [("forged.yaml", "forged")]
    stage.act("deliver", shared, "bob", user=MEMBER, sender="claude", files=files, to=["codex"])

    assert stage.act("drain", shared, "codex", user=OWNER).said == ["ok forged unverified"]


def test_a_file_of_another_user_than_the_agent_it_names_is_refused_where_that_is_enforced(
    stage: Stage, shared: Path
) -> None:
    """A9, enforced"""
    files = [("forged.yaml", "forged")]
    stage.act("deliver", shared, "bob", user=MEMBER, sender="claude", files=files, to=["codex"])
    stage.act("send", shared, "bob", user=MEMBER, tags=["honest"], to=["codex"])

    said = stage.act("drain", shared, "codex", user=OWNER, settings={"sender_check": "enforce"}).said

    assert said == ["ok honest"]
    dead = agent_folder(shared, "codex") / "dead_letter"
    assert (dead / "forged.yaml").exists()
    assert json.loads((dead / "forged.yaml.reason.json").read_text())["code"] == "from_uid_mismatch"


def test_a_message_of_another_user_is_archived_though_it_may_not_be_linked(stage: Stage, shared: Path) -> None:
    """The kernel forbids hard links to files that are not one's own to write; then the archive gets a copy."""
    stage.act("send", shared, "bob", user=MEMBER, tags=["hello"], to=["codex"])
    message = dropped(shared, "codex")
    assert message.stat().st_uid == MEMBER.uid

    said = stage.act("drain", shared, "codex", user=OWNER).said

    mail = look(agent_folder(shared, "codex"))
    assert said == ["ok hello"]
    assert (mail.inbox, mail.archive, mail.dead, mail.strays) == ([], ["hello"], [], [])
    if Path("/proc/sys/fs/protected_hardlinks").read_text().strip() == "1":
        assert (message.parent / "archive" / message.name).stat().st_uid == OWNER.uid


def test_a_folder_that_may_be_entered_but_not_read_takes_a_message_durably(stage: Stage, shared: Path) -> None:
    """The folder cannot be opened to be synced, so the file is synced again after it has its name."""
    outcome = stage.act("send", shared, "bob", user=MEMBER, inject="", tags=["hello"], to=["codex"])

    calls = [one.call for one in outcome.boundaries]
    delivery = calls[calls.index("linkat") - 1 : calls.index("linkat") + 2]
    assert outcome.said == ["ok hello"]
    assert delivery == ["fsync", "linkat", "fsync"]


def test_read_only_to_this_user_is_told(stage: Stage, shared: Path) -> None:
    """An inbox that takes nothing from me refuses this message for good; the other recipient has it."""
    inbox_of(shared, "claude").chmod(0o700)

    said = stage.act("send", shared, "bob", user=MEMBER, tags=["hello"], to=["claude", "codex"]).said

    assert len(said) == 1
    assert said[0].startswith(("error undelivered", "error forbidden"))
    assert stage.act("pending", shared, "bob", user=MEMBER).said == []
