"""Filters of lists: every time is typed in the same ways, and what cannot be read is named beside its field."""

from __future__ import annotations

import pytest

from tests.conformance.ocip.governed import pair
from tests.rigs.team import LiveServer, with_server
from tests.rigs.visitor import signed_in, text_of

TIMES = (
    ("audit", "since", "Since"),
    ("audit", "until", "Until"),
    ("exchanges", "since", "Since"),
    ("exchanges", "until", "Until"),
    ("traffic", "since", "Since (UTC)"),
    ("traffic", "until", "Until (UTC)"),
    ("channels", "active_since", "Active since"),
)
OTHERS = (
    ("exchanges", "pair", "Two agents"),
    ("audit", "pair", "Two agents"),
    ("agents", "status", "Status"),
    ("channels", "status", "Status"),
    ("policies", "at", "As of"),
    ("policies/enterprise/default", "at", "As of"),
    ("policies/diff", "from", "From"),
)


@pytest.mark.parametrize(("page", "name", "label"), TIMES)
@with_server
async def test_a_filter_of_a_time_takes_a_day_a_time_and_how_long_ago(
    server: LiveServer, page: str, name: str, label: str
) -> None:
    visitor = await signed_in(server)

    shown = await visitor.open(f"/console/{page}")
    # The end of a period is after its beginning.
    start = "since=2020-01-01&" if name == "until" else ""
    answers = [
        await visitor.open(f"/console/{page}?{start}{name}={text}")
        for text in ("7d", "2026-03-10", "2026-03-10T14:30:00Z")
    ]

    assert 'placeholder="2026-11-18, or 7d" dir="auto" autocomplete="off" spellcheck="false"' in shown.body.decode()
    assert label in text_of(shown)
    assert [answer.status for answer in answers] == [200] * 3
    assert not any('class="note bad"' in answer.body.decode() for answer in answers)


@pytest.mark.parametrize(("page", "name", "label"), [*TIMES, *OTHERS])
@with_server
async def test_what_a_filter_cannot_read_is_named_and_its_form_stays(
    server: LiveServer, page: str, name: str, label: str
) -> None:
    await pair(server)
    visitor = await signed_in(server)

    answer = await visitor.open(f"/console/{page}?{name}=f<o>o")

    html = answer.body.decode()
    assert "This did not work" not in html
    assert 'class="filters"' in html
    assert 'role="alert"' in html
    assert f'<b>{label}</b> <q dir="auto">f&lt;o&gt;o</q>: ' in html


@with_server
async def test_policies_are_read_as_of_some_days_ago(server: LiveServer) -> None:
    await pair(server)
    visitor = await signed_in(server)

    for path in ("policies?at=1m", "policies/diff?from=1m", "policies/enterprise/default?at=1m"):
        answer = await visitor.open(f"/console/{path}")
        assert answer.status != 422, path
        assert "is no time" not in text_of(answer)
