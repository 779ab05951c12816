from __future__ import annotations

import json
from dataclasses import replace

import pytest
import rfc8785

from parley.domain.audit.checkpoint import AuditMark, checkpoint_id, key_id
from parley.domain.audit.entry import NO_HASH
from parley.domain.audit.merkle import Peaks, grown
from tests.samples.audit import a_log, checkpoints_of, signer, verify


def test_what_is_signed_is_canonical_json_with_everything_that_counts() -> None:
    (made,) = checkpoints_of(a_log(3), 3)

    statement = json.loads(made.statement)

    assert made.statement == rfc8785.dumps(statement)
    assert statement == {
        "type": "parley.audit.checkpoint.v1",
        "tenant": "acme",
        "size": 3,
        "root": made.root,
        "at": made.at,
        "previous": NO_HASH,
    }
    assert verify(bytes.fromhex(made.public_key), bytes.fromhex(made.signature), made.statement)


@pytest.mark.parametrize(
    "change", [{"size": 4}, {"root": "0" * 64}, {"at": "x"}, {"previous": "1" * 64}, {"tenant_id": "globex"}]
)
def test_whatever_is_changed_no_longer_fits_the_signature(change: dict[str, object]) -> None:
    (made,) = checkpoints_of(a_log(3), 3)

    changed = replace(made, **change)  # type: ignore[arg-type]

    assert not verify(bytes.fromhex(made.public_key), bytes.fromhex(made.signature), changed.statement)
    assert changed.hash != made.hash


def test_each_one_names_the_one_before() -> None:
    first, second = checkpoints_of(a_log(5), 2, 5)

    assert (first.previous, second.previous) == (NO_HASH, first.hash)


def test_ids_sort_as_the_sizes_do() -> None:
    assert sorted(map(checkpoint_id, (1000, 9, 10, 0))) == [*map(checkpoint_id, (0, 9, 10, 1000))]


def test_a_key_has_a_short_name() -> None:
    (made,) = checkpoints_of(a_log(1), 1)

    assert made.key_id == key_id(signer().public_key.hex())
    assert len(made.key_id) == 16
    assert made.key_id != key_id(signer(2).public_key.hex())


def test_a_mark_holds_a_tree_that_can_grow() -> None:
    leaves = [bytes.fromhex(one.entry_hash) for one in a_log(7)]
    begun = grown(Peaks(), leaves[:5])

    mark = AuditMark(id="audit", tenant_id="acme", size=5, peaks=tuple(one.hex() for one in begun.roots))

    assert grown(mark.tree, leaves[5:]) == grown(Peaks(), leaves)
