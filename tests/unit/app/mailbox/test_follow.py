"""A watcher's cursor."""

from __future__ import annotations

from parley.app.mailbox import follow, read
from parley.app.mailbox.kernel import Kernel, drive
from parley.domain.message.message import Kind
from tests.samples.messages import a_file
from tests.unit.app.rig import Rig


def unseen(kernel: Kernel, watcher: str = "default") -> list[str]:
    return [item.id or item.file for item in drive(follow.unseen(kernel, watcher))]


def test_what_was_not_shown_is_shown_again(rig: Rig) -> None:
    sent = rig.send()
    kernel = rig.kernel("codex")

    assert unseen(kernel) == unseen(kernel) == [sent.message.id]


def test_what_was_shown_is_not_shown_again(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("codex")
    drive(follow.shown(kernel, "default", drive(follow.unseen(kernel, "default"))))
    later = rig.send(Kind.QUESTION)

    assert unseen(kernel) == unseen(rig.kernel("codex")) == [later.message.id]


def test_two_watchers_do_not_know_each_other(rig: Rig) -> None:
    sent = rig.send()
    kernel = rig.kernel("codex")
    drive(follow.shown(kernel, "one", drive(follow.unseen(kernel, "one"))))

    assert (unseen(kernel, "one"), unseen(kernel, "two")) == ([], [sent.message.id])


def test_a_bad_file_is_shown_once(rig: Rig) -> None:
    (rig.path("codex") / "bad.yaml").write_bytes(b"\xff")
    kernel = rig.kernel("codex")
    assert unseen(kernel) == ["bad.yaml"]
    drive(follow.shown(kernel, "default", drive(follow.unseen(kernel, "default"))))

    assert unseen(kernel) == []


def test_a_second_file_under_an_old_name_is_news(rig: Rig) -> None:
    path = rig.path("codex") / "same.yaml"
    path.write_bytes(a_file(id="one"))
    kernel = rig.kernel("codex")
    drive(follow.shown(kernel, "default", drive(follow.unseen(kernel, "default"))))
    path.rename(path.with_suffix(".old"))
    path.write_bytes(a_file(id="two"))

    assert unseen(rig.kernel("codex")) == ["two"]


def test_a_watcher_forgets_files_that_are_gone(rig: Rig) -> None:
    sent = rig.send()
    kernel = rig.kernel("codex")
    drive(follow.shown(kernel, "default", drive(follow.unseen(kernel, "default"))))
    (rig.path("codex") / sent.file).unlink()
    later = rig.send(Kind.QUESTION)

    drive(follow.shown(kernel, "default", drive(follow.unseen(kernel, "default"))))

    assert {mark.partition(":")[0] for mark in drive(kernel.store.seen_files("default"))} == {later.file}


def test_watching_consumes_nothing(rig: Rig) -> None:
    sent = rig.send()
    kernel = rig.kernel("codex")
    drive(follow.shown(kernel, "default", drive(follow.unseen(kernel, "default"))))

    assert [item.status for item in drive(read.inbox(kernel))] == ["new"]
    assert rig.files("codex") == [sent.file]
