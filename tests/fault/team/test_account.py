"""The rules that an account of exchanges must keep, each broken once on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fault.team.account import ROUND_LIMIT, Account, Asked, Delivered, Noted, Try, check

_NO_HASH = "0" * 64


def entry(account: Account, side: str, **told: object) -> None:
    before = [one for one in account.noted if one.side == side]
    number = len(account.noted) + 1
    document: dict[str, Any] = {**told, "prev_hash": before[-1].hash if before else _NO_HASH}
    account.noted.append(Noted(number, side, len(before) + 1, f"hash {number}", document))


def both_sides(account: Account, message: Delivered) -> None:
    told = {
        "action": "agent_exchange",
        "outcome": "delivered",
        "message_id": message.id,
        "exchange_id": message.exchange,
        "conversation_id": message.conversation,
        "round": message.round,
        "classification": message.level,
        "content_digest": message.digest,
    }
    entry(account, message.sender, role="sender", **told)
    entry(account, message.to, role="receiver", **told)


def a_message(number: int, sender: str, to: str, exchange: str = "e1", approval: str = "") -> Delivered:
    at = "2026-03-13T08:00:00"
    rest = (1, sender, to, "internal", f"digest {number}", f"label {number}", at, approval)
    return Delivered(number, f"m{number}", exchange, f"conv {exchange}", number if exchange == "e1" else 1, *rest)


def an_account() -> Account:
    """Two rounds of two, a third try that ran into the limit, and a promise that a person let through."""
    account = Account(exchanges={"e1": (2, 2), "e2": (3, 1)})
    for number, pair in ((1, ("ann", "bob")), (2, ("bob", "ann"))):
        message = a_message(number, *pair)
        account.delivered.append(message)
        account.tries.append(Try(message.label, message.conversation, message.sender, [(201, message.id)]))
        both_sides(account, message)
    account.tries.append(Try("label 9", "conv e1", "ann", [(202, "limit")]))
    account.asked.append(Asked("limit", ROUND_LIMIT, "e1", "conv e1", "pending", "", "label 9", ""))
    entry(account, "ann", action="agent_exchange", outcome="held", message_id="m9", approval="limit")
    promise = a_message(3, "ann", "bob", "e2", "yes")
    account.tries.append(Try(promise.label, promise.conversation, "ann", [(202, "yes")]))
    account.asked.append(Asked("yes", "commitment", "e2", "conv e2", "approved", "m3", promise.label, "alice"))
    entry(account, "ann", action="agent_exchange", outcome="held", message_id="m8", approval="yes")
    entry(account, "ann", action="approval_decided", approval="yes", decision="approved", content_digest="digest 3")
    account.delivered.append(promise)
    both_sides(account, promise)
    return account


def test_a_true_account_breaks_no_rule() -> None:
    assert check(an_account()) == []


def lose_one(account: Account) -> None:
    del account.delivered[0]


def deliver_what_was_held(account: Account) -> None:
    account.delivered.append(a_message(3, "ann", "bob")._replace(label="label 9"))


def answer_in_two_ways(account: Account) -> None:
    account.tries[0].answers.append((202, "limit"))


def use_a_round_twice(account: Account) -> None:
    account.delivered[1] = account.delivered[1]._replace(round=1)


def go_beyond_the_limit(account: Account) -> None:
    account.exchanges["e1"] = (1, 2)


def count_another_round(account: Account) -> None:
    account.exchanges["e1"] = (2, 1)


def begin_twice(account: Account) -> None:
    account.delivered[2] = account.delivered[2]._replace(conversation="conv e1")


def escalate_twice(account: Account) -> None:
    account.asked.append(account.asked[0]._replace(id="another"))


def escalate_never(account: Account) -> None:
    del account.asked[0]


def approve_nothing(account: Account) -> None:
    account.asked[1] = account.asked[1]._replace(status="pending")


def approve_twice(account: Account) -> None:
    account.delivered.append(account.delivered[2]._replace(seq=4, id="m4", label="label 4"))


def decide_twice(account: Account) -> None:
    entry(account, "ann", action="approval_decided", approval="yes", decision="approved", content_digest="digest 3")


def approve_something_else(account: Account) -> None:
    account.noted[6].document["content_digest"] = "another"


def record_one_side(account: Account) -> None:
    del account.noted[-1]


def record_another_round(account: Account) -> None:
    account.noted[1].document["round"] = 7


def record_what_was_not_sent(account: Account) -> None:
    entry(account, "ann", action="agent_exchange", outcome="delivered", message_id="m99", role="sender")


def send_without_an_envelope(account: Account) -> None:
    account.bare.append("label 7")


def hold_without_a_record(account: Account) -> None:
    account.noted[4].document["outcome"] = "denied"


def leave_a_gap(account: Account) -> None:
    del account.noted[4]


def rewrite_an_entry(account: Account) -> None:
    account.noted[0] = account.noted[0]._replace(hash="another")


@pytest.mark.parametrize(
    ("breach", "rule"),
    [
        (lose_one, "I3"),
        (deliver_what_was_held, "I4"),
        (answer_in_two_ways, "I4"),
        (use_a_round_twice, "I17"),
        (go_beyond_the_limit, "I17"),
        (count_another_round, "I17"),
        (begin_twice, "I17"),
        (escalate_twice, "I17"),
        (escalate_never, "I17"),
        (approve_nothing, "I19"),
        (approve_twice, "I19"),
        (decide_twice, "I19"),
        (approve_something_else, "I19"),
        (record_one_side, "I20"),
        (record_another_round, "I20"),
        (record_what_was_not_sent, "I20"),
        (send_without_an_envelope, "I20"),
        (hold_without_a_record, "I20"),
        (leave_a_gap, "I24"),
        (rewrite_an_entry, "I24"),
    ],
)
def test_each_breach_is_found_under_the_name_of_its_rule(breach: Callable[[Account], None], rule: str) -> None:
    account = an_account()
    breach(account)

    assert rule in {line.split(":")[0] for line in check(account)}
