"""Every key is declared once; snapshots follow one another, each with a label of its own."""

from __future__ import annotations

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.rules.policy import (
    CURRENT,
    KEYS,
    SHORTEST,
    Document,
    Fragment,
    Policy,
    PolicySnapshot,
    document_name,
    first_snapshot,
    with_document,
    without_document,
)
from parley.wire.files.policy import read_policy

EMPTY = PolicySnapshot(id=CURRENT, tenant_id="acme")


def test_a_document_may_set_every_key_of_a_policy_and_sets_none_by_itself() -> None:
    assert {key: getattr(Fragment(), key) for key in KEYS} == dict.fromkeys(KEYS)
    assert {key: getattr(Policy(), key) for key in KEYS} == {name: key.default for name, key in KEYS.items()}


def test_a_number_has_bounds_around_its_default_and_a_list_a_type_of_items() -> None:
    for key in KEYS.values():
        if type(key.default) is int:
            assert 1 <= key.least <= key.default <= key.most
        assert (key.items is not None) == isinstance(key.default, tuple)


def test_a_document_takes_the_place_of_the_one_that_had_its_name() -> None:
    first = with_document(EMPTY, "org/sales", "first", Fragment(max_rounds=2))

    second = with_document(first, "org/sales", "second", Fragment(max_rounds=1))

    assert second.fragments == {"org/sales": Fragment(max_rounds=1)}
    assert second.texts == {"org/sales": "second"}
    assert (first.number, second.number) == (1, 2)


def test_the_label_counts_on_also_when_everything_is_as_it_was_before() -> None:
    once = with_document(EMPTY, "org/sales", "text", Fragment(max_rounds=2))
    again = with_document(without_document(once, "org/sales"), "org/sales", "text", Fragment(max_rounds=2))

    assert once.digest == again.digest
    assert (once.label, again.label) == (f"1-{once.digest[:12]}", f"3-{once.digest[:12]}")


def test_the_digest_tells_texts_apart_however_they_are_cut_into_documents() -> None:
    one = with_document(EMPTY, "org/a", "x\ny", Fragment())
    two = with_document(with_document(EMPTY, "org/a", "x\n", Fragment()), "org/b", "y", Fragment())

    assert len({EMPTY.digest, one.digest, two.digest}) == 3


def test_the_digest_does_not_depend_on_the_order_of_the_changes() -> None:
    one = with_document(with_document(EMPTY, "org/a", "x", Fragment()), "org/b", "y", Fragment())
    two = with_document(with_document(EMPTY, "org/b", "y", Fragment()), "org/a", "x", Fragment())

    assert one.digest == two.digest


def test_without_a_document_nothing_of_it_is_left() -> None:
    full = with_document(EMPTY, "org/sales", "text", Fragment(max_rounds=2))

    left = without_document(full, "org/sales")

    assert (left.fragments, left.texts, left.number) == ({}, {}, 2)


def test_the_first_snapshot_has_the_enterprises_document_alone() -> None:
    first = first_snapshot("acme", Document("text", Fragment(max_rounds=2)))

    assert (first.number, first.version, first.texts) == (1, 0, {"enterprise/default": "text"})


def test_the_shortest_document_says_what_it_is_taken_for() -> None:
    assert read_policy(SHORTEST.text, "x.yaml") == SHORTEST.fragment


@pytest.mark.parametrize("name", ["enterprise/default", "org/Sales-2", "team/a.b", "user/ana+x@example.com"])
def test_a_document_is_named_by_scope_and_name(name: str) -> None:
    scope, _, of = name.partition("/")

    assert document_name(scope, of) == name


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        *(("", "x"), ("Org", "x"), ("orgs", "x"), ("org", ""), ("org", "."), ("org", "-x"), ("org", "a/b")),
        *(("org", "a b"), ("org", "x" * 129), ("org", "\u0435"), ("org", "x\n")),
    ],
)
def test_a_name_that_no_file_should_have_is_refused(scope: str, name: str) -> None:
    with pytest.raises(Invalid):
        document_name(scope, name)
