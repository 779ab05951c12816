"""A command that waits says so on a terminal, and nothing in a pipe."""

from __future__ import annotations

import re

from tests.surface.stage import Stage


def test_next_on_a_terminal_says_what_it_waits_for_and_takes_the_line_away(stage: Stage) -> None:
    _, shown = stage.on_terminal("next", "--wait", "2s", "-a", "codex")

    assert re.search(r"\r\x1b\[K. waiting for a message for codex 1s", shown)
    assert shown.endswith("\r\x1b[KNo message for codex.\n")


def test_in_a_pipe_nothing_is_said_about_waiting(stage: Stage) -> None:
    waited = stage.run("next", "--wait", "1s", "-a", "codex")
    watched = stage.run("watch", "--timeout", "1s", "-a", "codex")

    assert (waited.out, waited.err) == ("No message for codex.\n", "")
    assert (watched.out, watched.err) == ("", "")
