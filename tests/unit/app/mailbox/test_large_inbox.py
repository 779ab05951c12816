"""A large inbox is read once: the next process reads only what is new, and shows the same."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.adapters.files import heading_index
from parley.adapters.files.inbox import FileInbox
from parley.adapters.files.workspace import Workspace
from parley.app.mailbox import read
from parley.app.mailbox.kernel import Kernel, drive
from parley.domain.errors.errors import ParleyError
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.mailbox.listing import Item
from tests.unit.app.rig import PROJECT, Rig

MESSAGE = """\
id: {id}
from: claude
to: codex
type: question
priority: P2
created_at_utc: "2026-03-13T12:00:00Z"
subject: {subject}
body: Which?
"""


class CountingInbox(FileInbox):
    """An inbox that counts the files that were opened."""

    opened = 0

    def peek(self, names: Iterable[str], place: str = "inbox") -> Iterator[tuple[str, bytes | ParleyError, int, int]]:
        for peeked in super().peek(names, place):
            self.opened += 1
            yield peeked


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three files are many, and a file is trusted at once; its age has a test of its own."""
    monkeypatch.setattr(read, "_MANY", 3)
    monkeypatch.setattr(heading_index, "_SETTLED_NS", -3_600_000_000_000)


def put(rig: Rig, name: str, subject: str = "A question") -> Path:
    path = rig.path("codex") / f"{name}.yaml"
    path.write_text(MESSAGE.format(id=name, subject=subject))
    return path


def process(rig: Rig, *, limits: object = DEFAULT_LIMITS, enforce_owner: bool = False) -> tuple[Kernel, CountingInbox]:
    """A new process of codex."""
    kernel = rig.kernel("codex", limits=limits, enforce_owner=enforce_owner)  # type: ignore[arg-type]
    workspace = Workspace(str(rig.folder), PROJECT)
    inbox = CountingInbox(workspace, workspace.agent("codex"), kernel.limits)
    kernel.inbox = inbox
    return kernel, inbox


def listed(rig: Rig) -> tuple[list[Item], int]:
    """What a new process lists, and how many files it opened for that."""
    kernel, inbox = process(rig)
    return drive(read.inbox(kernel)), inbox.opened


def index(rig: Rig) -> Path:
    return rig.path("codex", ".parley") / "headings-inbox"


def test_the_second_process_opens_no_file_and_lists_the_same(rig: Rig) -> None:
    for number in range(5):
        put(rig, f"m{number}", f'"Round {number}: yes or no?"')

    first, second = listed(rig), listed(rig)

    assert (first[1], second[1]) == (5, 0)
    assert first[0] == second[0]


def test_the_second_process_lists_in_processing_order(rig: Rig) -> None:
    for number, priority in enumerate(("P3", "P0", "P2", "P1", "P0")):
        path = put(rig, f"m{number}")
        path.write_text(path.read_text().replace("priority: P2", f"priority: {priority}"))

    first, second = listed(rig), listed(rig)

    assert [item.id for item in second[0]] == ["m1", "m4", "m3", "m2", "m0"]
    assert first[0] == second[0]


def test_what_expires_while_it_is_known_is_listed_as_expired(rig: Rig) -> None:
    for number in range(3):
        put(rig, f"m{number}")
    path = put(rig, "m3")
    path.write_text(path.read_text() + 'expires_at: "2026-03-13T15:00:00Z"\n')
    before, _ = listed(rig)
    rig.clock.pass_by(hours=1)

    after, opened = listed(rig)

    assert [item.expired for item in before] == [False, False, False, False]
    assert [item.expired for item in after] == [False, False, False, True]
    assert opened == 0


def test_only_what_is_new_or_changed_is_opened(rig: Rig) -> None:
    for number in range(5):
        put(rig, f"m{number}")
    listed(rig)
    put(rig, "new")
    os.unlink(rig.path("codex") / "m0.yaml")
    replaced = rig.path("codex") / "m1.yaml"
    os.unlink(replaced)
    put(rig, "m1", "Another question")

    items, opened = listed(rig)

    assert opened == 2
    assert {item.id: item.subject for item in items} == {
        **dict.fromkeys(("m2", "m3", "m4", "new"), "A question"),
        "m1": "Another question",
    }


def test_what_is_no_message_is_looked_at_each_time(rig: Rig) -> None:
    for number in range(5):
        put(rig, f"m{number}")
    bad = rig.path("codex") / "bad.yaml"
    bad.write_text("no message")
    listed(rig)

    assert listed(rig)[1] == 1
    bad.write_text(MESSAGE.format(id="bad", subject="Mended"))
    assert [item.subject for item in listed(rig)[0] if item.id == "bad"] == ["Mended"]


def test_a_small_inbox_has_no_index(rig: Rig) -> None:
    put(rig, "m1")
    put(rig, "m2")
    listed(rig)

    assert not index(rig).exists()
    assert listed(rig)[1] == 2


def test_a_file_that_may_still_be_written_to_is_not_kept(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heading_index, "_SETTLED_NS", 3_600_000_000_000)
    for number in range(4):
        put(rig, f"m{number}")
    listed(rig)

    assert listed(rig)[1] == 4


def test_other_limits_read_everything_anew(rig: Rig) -> None:
    for number in range(4):
        put(rig, f"m{number}-long-enough")
    listed(rig)
    kernel, inbox = process(rig, limits=DEFAULT_LIMITS._replace(id_chars=5))

    assert {item.status for item in drive(read.inbox(kernel))} == {"unreadable"}
    assert inbox.opened == 4


def test_what_is_doubtful_is_judged_anew(rig: Rig) -> None:
    for number in range(4):
        path = put(rig, f"m{number}")
        os.chown(path, 65_533, -1)
    first, _ = listed(rig)
    kernel, inbox = process(rig, enforce_owner=True)

    assert all(item.doubts for item in first)
    assert {item.status for item in drive(read.inbox(kernel))} == {"unreadable"}
    assert inbox.opened == 0


def test_files_of_another_user_are_looked_at_each_time(rig: Rig) -> None:
    """Its owner may write to a file that is in the inbox already."""
    for number in range(3):
        put(rig, f"m{number}")
    path = put(rig, "m3")
    os.chown(path, 65_533, -1)
    listed(rig)
    path.write_text(MESSAGE.format(id="m3", subject="Changed in place"))

    assert "Changed in place" in {item.subject for item in listed(rig)[0]}


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "linked", "of another user", "a folder"])
def test_an_index_that_is_not_whole_or_not_one_s_own_is_not_used(rig: Rig, damage: str, tmp_path: Path) -> None:
    for number in range(4):
        put(rig, f"m{number}")
    before, _ = listed(rig)
    path = index(rig)
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-1])
    elif damage == "flipped":
        path.write_bytes(content.replace(b"A question", b"B question"))
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "linked":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif damage == "of another user":
        os.chown(path, 65_533, -1)
    else:
        path.unlink()
        path.mkdir()

    assert listed(rig) == (before, 4)
    assert not [left for left in path.parent.iterdir() if left.name.endswith(".tmp")]


def test_a_reader_who_may_not_write_lists_without_an_index(rig: Rig) -> None:
    for number in range(4):
        put(rig, f"m{number}")
    private = rig.path("codex", ".parley")
    private.write_text("where the folder should be")

    assert listed(rig)[1] == listed(rig)[1] == 4


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f"])
SUBJECTS = st.sampled_from(["One", '"two: 2"', '"with \\t tab"', '"with \\x1f mark"', '"two\\nlines"', "Ärger"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, SUBJECTS),
        st.tuples(st.just("drop"), NAMES, st.just("")),
        st.tuples(st.just("list"), st.just(""), st.just("")),
    ),
    max_size=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_with_an_index_a_listing_shows_what_it_shows_without(rig: Rig, steps: list[tuple[str, str, str]]) -> None:
    for path in rig.path("codex").glob("*.yaml"):
        path.unlink()
    for act, name, subject in [*steps, ("list", "", "")]:
        if act == "list":
            with_index = listed(rig)[0]
            index(rig).unlink(missing_ok=True)
            assert with_index == listed(rig)[0]
        else:
            (rig.path("codex") / f"{name}.yaml").unlink(missing_ok=True)
            if act == "put":
                put(rig, name, subject)
