"""The tree of RFC 6962 over hashes in their order: one root for all, short proofs for one leaf and for growth.

           root                a node is SHA-256(0x01 || left || right); the left half is the largest power of two
        ┌───┴───┐              below the size, so that full subtrees never change again while the tree grows
       ┌┴┐     ┌┴┐
     ┌─┴┐ ┌┴─┐ e f             the peaks of 6 leaves: the tree over a to d, the tree over e and f
     a  b c  d

Leaves come hashed already (`domain.audit.entry_hash`); that their prefix is another keeps a node from passing for one.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The root of an empty tree.
EMPTY_ROOT = sha256().digest()


def node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Peaks(NamedTuple):
    """A tree as the roots of its full subtrees, largest first: enough to extend it."""

    size: int = 0
    roots: tuple[bytes, ...] = ()

    def root(self) -> bytes:
        """The root over everything so far."""
        if not self.roots:
            return EMPTY_ROOT
        root = self.roots[-1]
        for peak in self.roots[-2::-1]:
            root = node(peak, root)
        return root


def grown(peaks: Peaks, leaves: Iterable[bytes]) -> Peaks:
    """The tree with more leaves; the cost depends only on the new ones."""
    nodes, old_roots, new_roots = list(leaves), list(peaks.roots), list[bytes]()
    size = peaks.size + len(nodes)
    # From the leaves up. At each height an old peak comes before the new nodes; of the nodes then, the last one becomes
    # a peak if it has no neighbour, and all others are joined in pairs. The bits of `heights` say where old peaks are.
    heights = peaks.size
    while nodes:
        if heights & 1:
            nodes.insert(0, old_roots.pop())
        if len(nodes) & 1:
            new_roots.append(nodes.pop())
        nodes = [sha256(b"\x01" + left + right).digest() for left, right in zip(nodes[::2], nodes[1::2], strict=True)]
        heights >>= 1
    return Peaks(size, (*old_roots, *reversed(new_roots)))


def tree_root(leaves: Sequence[bytes]) -> bytes:
    return grown(Peaks(), leaves).root()


def inclusion(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The neighbours from a leaf up to the root."""
    if not 0 <= index < len(leaves):
        raise ValueError("no such leaf")
    path: list[bytes] = []
    low, high = 0, len(leaves)
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(tree_root(leaves[middle:high]))
            high = middle
        else:
            path.append(tree_root(leaves[low:middle]))
            low = middle
    return tuple(reversed(path))


def is_included(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether the path leads from this leaf, at this place of a tree of this size, to the root."""
    if not 0 <= index < size:
        return False
    place, last, computed = index, size - 1, leaf
    for neighbour in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            computed = node(neighbour, computed)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            computed = node(computed, neighbour)
        place, last = place >> 1, last >> 1
    return last == 0 and computed == root


def consistency(leaves: Sequence[bytes], first: int) -> tuple[bytes, ...]:
    """The proof that the tree over all leaves extends the tree over the first of them."""
    if not 0 < first <= len(leaves):
        raise ValueError("no tree of that size to begin with")
    path: list[bytes] = []
    low, high, whole = 0, len(leaves), True
    while first < high:
        middle = low + _split(high - low)
        if first <= middle:
            path.append(tree_root(leaves[middle:high]))
            high = middle
        else:
            path.append(tree_root(leaves[low:middle]))
            low, whole = middle, False
    if not whole:
        # The verifier does not know this subtree, unless it is the whole first tree: then it is the root.
        path.append(tree_root(leaves[low:high]))
    return tuple(reversed(path))


def _split(size: int) -> int:
    """The largest power of two below the size."""
    return 1 << (size - 1).bit_length() - 1
