import hashlib

import pytest

from parley.domain.channel.checkpoint import Checkpoint, encode_digest, merkle_path, merkle_root, raw_digest


def leaf(number: int) -> bytes:
    return hashlib.sha256(b"%d" % number).digest()


def joined(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(left + right).digest()


def test_the_root_of_one_leaf_is_the_leaf() -> None:
    assert merkle_root([leaf(1)]) == leaf(1)
    assert merkle_path([leaf(1)], 0) == []


def test_the_last_leaf_is_repeated_up_to_a_power_of_two() -> None:
    a, b, c = leaf(1), leaf(2), leaf(3)

    assert merkle_root([a, b, c]) == joined(joined(a, b), joined(c, c))


def test_the_side_of_each_neighbour_is_told() -> None:
    a, b, c = leaf(1), leaf(2), leaf(3)

    assert merkle_path([a, b, c], 1) == [("left", a), ("right", joined(c, c))]
    assert merkle_path([a, b, c], 2) == [("right", c), ("left", joined(a, b))]


@pytest.mark.parametrize("size", [*range(1, 10), 31, 32, 33])
def test_every_leaf_leads_to_the_root(size: int) -> None:
    leaves = [leaf(number) for number in range(size)]

    for index, current in enumerate(leaves):
        for side, neighbour in merkle_path(leaves, index):
            current = joined(neighbour, current) if side == "left" else joined(current, neighbour)  # noqa: PLW2901
        assert current == merkle_root(leaves)


def test_a_tree_has_leaves() -> None:
    with pytest.raises(ValueError, match="leaves"):
        merkle_root([])


def test_a_hash_is_spelled_so_that_it_can_be_read_back() -> None:
    text = "sha256:m4rnlU2FNaRADt0HzpjpnkKs9izmSyf2XZXnjkLAp4I"

    assert len(raw_digest(text)) == 32
    assert encode_digest(raw_digest(text)) == text


def test_a_checkpoint_covers_what_lies_between_its_ends() -> None:
    checkpoint = Checkpoint(
        id="ckpt_1", tenant_id="t", intent_id="i", merkle_root="", first_sequence=3, last_sequence=5, created_at=""
    )

    assert [checkpoint.covers(number) for number in (2, 3, 5, 6)] == [False, True, True, False]
    assert checkpoint.event_count == 3
    assert (checkpoint.parent, checkpoint.name) == ("i", "3")
