"""The tree of RFC 6962, by the vectors that every implementation is checked with, and by what must always hold."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.audit.merkle import (
    EMPTY_ROOT,
    Peaks,
    consistency,
    grown,
    inclusion,
    is_included,
    node,
    tree_root,
)
from tests.samples.messages import PROPERTY


def is_consistent(first: int, second: int, first_root: bytes, second_root: bytes, path: Sequence[bytes]) -> bool:
    """Whether the path shows a verifier that the second tree begins with the first (RFC 9162, 2.1.4.2)."""
    if first == second:
        return not path and first_root == second_root
    if not 0 < first < second:
        return False
    # A first tree that is a full subtree of the second is not repeated in the path.
    steps = (first_root, *path) if first & (first - 1) == 0 else tuple(path)
    if not steps:
        return False
    place, last = first - 1, second - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = steps[0]
    for neighbour in steps[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = node(neighbour, old), node(neighbour, new)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            new = node(new, neighbour)
        place, last = place >> 1, last >> 1
    return last == 0 and old == first_root and new == second_root


# The leaves and roots of the reference implementation of Certificate Transparency.
INPUTS = ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
LEAVES = [sha256(b"\x00" + bytes.fromhex(one)).digest() for one in INPUTS]
ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
_96 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
_5F = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
_6B = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
_BC = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
_CA = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
_0E = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
_B0 = "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f"

digests = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=70)


def hexed(path: tuple[bytes, ...]) -> list[str]:
    return [one.hex() for one in path]


@pytest.mark.parametrize("size", range(9))
def test_the_roots_are_the_published_ones(size: int) -> None:
    assert tree_root(LEAVES[:size]).hex() == ROOTS[size]
    assert bytes.fromhex(ROOTS[0]) == EMPTY_ROOT


@pytest.mark.parametrize(
    ("index", "size", "path"),
    [
        (0, 1, []),
        (0, 8, [_96, _5F, _6B]),
        (5, 8, [_BC, _CA, ROOTS[4]]),
        (2, 3, [ROOTS[2]]),
        (1, 5, [ROOTS[1], _5F, _BC]),
    ],
)
def test_the_inclusion_proofs_are_the_published_ones(index: int, size: int, path: list[str]) -> None:
    assert hexed(inclusion(LEAVES[:size], index)) == path
    assert is_included(LEAVES[index], index, size, [*map(bytes.fromhex, path)], bytes.fromhex(ROOTS[size]))


@pytest.mark.parametrize(
    ("first", "second", "path"),
    [
        (1, 1, []),
        (1, 8, [_96, _5F, _6B]),
        (6, 8, [_0E, _CA, ROOTS[4]]),
        (2, 5, [_5F, _BC]),
        (6, 7, [_0E, _B0, ROOTS[4]]),
    ],
)
def test_the_consistency_proofs_are_the_published_ones(first: int, second: int, path: list[str]) -> None:
    roots = bytes.fromhex(ROOTS[first]), bytes.fromhex(ROOTS[second])

    assert hexed(consistency(LEAVES[:second], first)) == path
    assert is_consistent(first, second, *roots, [*map(bytes.fromhex, path)])


@PROPERTY
@given(digests, st.data())
def test_a_tree_that_grows_piece_by_piece_has_the_root_of_the_whole(leaves: list[bytes], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(leaves)))

    begun = grown(Peaks(), leaves[:cut])
    # What a checkpoint keeps: the peaks, and nothing else.
    kept = Peaks(begun.size, tuple(bytes.fromhex(one.hex()) for one in begun.roots))

    assert grown(kept, leaves[cut:]) == grown(Peaks(), leaves)
    assert len(begun.roots) == begun.size.bit_count()


@PROPERTY
@given(digests, st.data())
def test_every_leaf_is_proved_by_its_path_and_by_no_other(leaves: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    path, root = inclusion(leaves, index), tree_root(leaves)

    assert is_included(leaves[index], index, len(leaves), path, root)
    assert not is_included(sha256(leaves[index]).digest(), index, len(leaves), path, root)
    assert not is_included(leaves[index], index, len(leaves), path, sha256(root).digest())
    assert not is_included(leaves[index], index, len(leaves), (*path, root), root)
    assert not is_included(leaves[index], len(leaves), len(leaves), path, root)
    assert not is_included(leaves[index], -1, len(leaves), path, root)
    if path:
        assert not is_included(leaves[index], index, len(leaves), path[:-1], root)
        damaged = (*path[:-1], sha256(path[-1]).digest())
        assert not is_included(leaves[index], index, len(leaves), damaged, root)


@PROPERTY
@given(digests, st.data())
def test_a_proof_holds_for_one_place_only(leaves: list[bytes], data: st.DataObject) -> None:
    distinct = [sha256(bytes([number]) + one).digest() for number, one in enumerate(leaves)]
    index = data.draw(st.integers(0, len(distinct) - 1))
    other = data.draw(st.integers(0, len(distinct) - 1))

    holds = is_included(distinct[index], other, len(distinct), inclusion(distinct, index), tree_root(distinct))

    assert holds == (other == index)


@PROPERTY
@given(digests, st.data())
def test_a_tree_is_consistent_with_each_of_its_beginnings(leaves: list[bytes], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(leaves)))
    path, roots = consistency(leaves, first), (tree_root(leaves[:first]), tree_root(leaves))

    assert is_consistent(first, len(leaves), *roots, path)
    assert not is_consistent(first, len(leaves), sha256(roots[0]).digest(), roots[1], path)
    assert not is_consistent(first, len(leaves), roots[0], sha256(roots[1]).digest(), path)
    assert not is_consistent(first, len(leaves), *roots, (*path, roots[0]))
    assert not is_consistent(0, len(leaves), EMPTY_ROOT, roots[1], path)
    if path:
        assert not is_consistent(first, len(leaves), *roots, path[1:])


@PROPERTY
@given(digests, st.data())
def test_a_beginning_that_was_rewritten_is_not_consistent(leaves: list[bytes], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(leaves)))
    changed = data.draw(st.integers(0, first - 1))
    rewritten = [sha256(one).digest() if at == changed else one for at, one in enumerate(leaves)]

    old_root, new_root = tree_root(leaves[:first]), tree_root(rewritten)

    assert not is_consistent(first, len(leaves), old_root, new_root, consistency(rewritten, first))


def test_a_node_is_never_taken_for_a_leaf() -> None:
    left, right = LEAVES[:2]

    assert node(left, right) != sha256(b"\x00" + left + right).digest()


@pytest.mark.parametrize("index", [-1, 8])
def test_there_is_no_proof_for_a_leaf_that_is_not_there(index: int) -> None:
    with pytest.raises(ValueError, match="leaf"):
        inclusion(LEAVES, index)


@pytest.mark.parametrize("first", [0, 9])
def test_there_is_no_proof_for_a_beginning_that_is_not_there(first: int) -> None:
    with pytest.raises(ValueError, match="size"):
        consistency(LEAVES, first)
