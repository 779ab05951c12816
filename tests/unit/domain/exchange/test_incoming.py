"""Receipts and budgets are found by what they are about."""

from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict, Spent, Vouched, spent_id, vouched_id


def test_receipts_are_listed_by_what_became_of_them() -> None:
    receipt = InboxReceipt(id="d" * 64, tenant_id="acme", message_id="m", file="f", status=InboxVerdict.HELD, at="")

    assert (receipt.parent, receipt.name, receipt.due) == ("held", "", "")


def test_an_approval_is_another_one_with_another_sender() -> None:
    ids = {vouched_id(*one) for one in (("claude", "appr_1"), ("claude", "appr_2"), ("codex", "appr_1"))}

    assert len(ids) == 3
    assert Vouched(id="claude/appr_1", tenant_id="acme", digest="d" * 64).version == 0


def test_a_budget_is_of_a_pair_and_an_hour() -> None:
    first, later = "2026-03-13T14:30:00.000000+00:00", "2026-03-13T15:00:00.000000+00:00"

    assert spent_id("a,b", first) == spent_id("a,b", first.replace("14:30", "14:59"))
    assert len({spent_id("a,b", first), spent_id("a,c", first), spent_id("a,b", later)}) == 3
    assert Spent(id="x", tenant_id="acme").count == 0
