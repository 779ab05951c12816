"""`Mailbox.watch`: what arrives, once, and again after a crash."""

from __future__ import annotations

from collections.abc import Callable

from tests.surface.stage import Stage


def nothing(_: float) -> None:
    """Time passes at once."""


def test_what_lies_there_is_yielded_first_and_then_what_arrives(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        first = claude.send("codex", "question", "One", "x")
        later: list[str] = []

        def arrive(_: float) -> None:
            if not later:
                later.append(claude.send("codex", "question", "Two", "x").id)

        shown = [item.id for item in codex.watch(timeout=3, pause=arrive)]

    assert shown == [first.id, *later]


def test_silence_ends_it_after_the_timeout(stage: Stage) -> None:
    waited: list[float] = []
    with stage.mailbox("codex") as codex:
        assert list(codex.watch(timeout=2, pause=waited.append)) == []

    assert 2 <= sum(waited) < 2.1


def test_without_a_timeout_it_waits_for_ever(stage: Stage) -> None:
    class Enough(Exception):
        pass

    turns: list[float] = []

    def pause(seconds: float) -> None:
        turns.append(seconds)
        if len(turns) > 1_000:
            raise Enough

    with stage.mailbox("codex") as codex:
        assert _ends_with(Enough, lambda: list(codex.watch(pause=pause)))


def _ends_with(kind: type[Exception], act: Callable[[], object]) -> bool:
    try:
        act()
    except kind:
        return True
    return False


def test_what_a_crash_interrupts_comes_again(stage: Stage) -> None:
    with stage.mailbox("claude") as claude:
        sent = claude.send("codex", "question", "One", "x")

    with stage.mailbox("codex") as codex:
        watching = codex.watch(timeout=0, pause=nothing)
        interrupted = next(watching).id
        watching.close()  # type: ignore[attr-defined]
    with stage.mailbox("codex") as codex:
        again = [item.id for item in codex.watch(timeout=0, pause=nothing)]
        after = [item.id for item in codex.watch(timeout=0, pause=nothing)]

    assert (interrupted, again, after) == (sent.id, [sent.id], [])


def test_watchers_are_independent_of_each_other_and_of_the_command_line(stage: Stage) -> None:
    with stage.mailbox("claude") as claude:
        sent = claude.send("codex", "question", "One", "x")

    with stage.mailbox("codex") as codex:
        one = [item.id for item in codex.watch("one", timeout=0, pause=nothing)]
        two = [item.id for item in codex.watch("two", timeout=0, pause=nothing)]
        stage.run("watch", "--once", "--watcher", "three", "-a", "codex")
        three = [item.id for item in codex.watch("three", timeout=0, pause=nothing)]

    assert (one, two, three) == ([sent.id], [sent.id], [])


def test_a_bad_file_is_yielded_once_with_its_problem(stage: Stage) -> None:
    stage.plant("codex", "bad.yaml", without="type")

    with stage.mailbox("codex") as codex:
        shown = [item.problem for _ in range(2) for item in codex.watch(timeout=0, pause=nothing)]

    assert shown == ["invalid: type: is missing"]
