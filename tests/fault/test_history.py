"""The checker itself: each broken promise is found, a good history is not blamed."""

from __future__ import annotations

import pytest

from tests.fault.history import Mail, Record, check

pytestmark = pytest.mark.fault

NOBODY = Mail([], [], [], [], [])


def sent(tag: str = "a", to: str = "reader") -> list[Record]:
    return [Record("s", "send", "invoke", tag, 1, to), Record("s", "send", "ok", tag, 2)]


def claimed(client: str, at: int, tag: str = "a") -> Record:
    return Record(client, "claim", "ok", tag, at, "reader", at - 1)


def done(client: str, at: int, tag: str = "a") -> Record:
    return Record(client, "done", "ok", tag, at, "reader")


def killed(client: str, at: int) -> Record:
    return Record(client, "kill", "ok", "", at)


def mail(**places: list[str]) -> dict[str, Mail]:
    reader = NOBODY._replace(**{name: tags for name, tags in places.items() if name != "outbox"})
    return {"reader": reader, "s": NOBODY._replace(outbox=places.get("outbox", ["a"]))}


GOOD = {
    "it waits": (sent(), mail(inbox=["a"])),
    "it was processed": ([*sent(), claimed("r", 3), done("r", 4)], mail(archive=["a"])),
    "it was given up": (sent(), mail(dead=["a"])),
    "its reader was killed and another has it": (
        [*sent(), claimed("r", 3), killed("r", 4), claimed("q", 5), done("q", 6)],
        mail(archive=["a"]),
    ),
    "its sender was killed before anything happened": (sent()[:1], mail(outbox=[])),
}

BAD = {
    "is lost": (sent(), mail()),
    "while r had it": ([*sent(), claimed("r", 3), claimed("q", 5), done("q", 6)], mail(archive=["a"])),
    "after r was done": ([*sent(), claimed("r", 3), done("r", 4), claimed("q", 9)], mail(archive=["a"])),
    "nobody sent it": ([], mail(inbox=["a"])),
    "lies 2 times": (sent(), mail(inbox=["a", "a"])),
    "copies in the outbox": (sent(), mail(inbox=["a"], outbox=[])),
    "torn": (sent(), mail(inbox=["torn a"])),
    "dead letters": ([*sent(), claimed("r", 3), done("r", 4)], mail(archive=["a"], dead=["a"])),
    "in the inbox of reader again": ([*sent(), claimed("r", 3), done("r", 4)], mail(inbox=["a"])),
    "was archived by reader and nobody had it": (sent(), mail(archive=["a"])),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_good_history_is_not_blamed(case: str) -> None:
    assert check(*GOOD[case]) == []


@pytest.mark.parametrize("complaint", BAD)
def test_a_broken_promise_is_found(complaint: str) -> None:
    assert any(complaint in found for found in check(*BAD[complaint]))


def test_a_broadcast_that_reached_some_is_found() -> None:
    places = {"one": NOBODY._replace(inbox=["a"]), "two": NOBODY, "s": NOBODY._replace(outbox=["a"])}

    assert "a reached only ['one'] of ['one', 'two']" in check(sent(to="one,two")[:1], places)


def test_a_message_that_was_refused_to_its_sender_may_not_arrive() -> None:
    records = [sent()[0], Record("s", "send", "fail", "a", 2, "name_exists")]

    assert any("refused" in found for found in check(records, mail(inbox=["a"])))


def test_a_lease_may_run_out_but_not_be_cut_short() -> None:
    within = [*sent(), claimed("r", 3), claimed("q", 500_000_000), done("q", 600_000_000)]
    beyond = [*sent(), claimed("r", 3), claimed("q", 1_500_000_000), done("q", 1_600_000_000)]

    assert any("within the lease" in found for found in check(within, mail(archive=["a"]), 1.0))
    assert check(beyond, mail(archive=["a"]), 1.0) == []
