"""Receipts are found by what they are about."""

from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict, Vouched, vouched_id


def test_receipts_are_listed_by_what_became_of_them() -> None:
    receipt = InboxReceipt(id="d" * 64, tenant_id="acme", message_id="m", file="f", status=InboxVerdict.HELD, at="")

    assert (receipt.parent, receipt.name, receipt.due) == ("held", "", "")


def test_an_approval_is_another_one_with_another_sender() -> None:
    ids = {vouched_id(*one) for one in (("claude", "appr_1"), ("claude", "appr_2"), ("codex", "appr_1"))}

    assert len(ids) == 3
    assert Vouched(id="claude/appr_1", tenant_id="acme", digest="d" * 64).version == 0
