"""Where the texts of a body are: each with a JSON Pointer, so that a reader can be shown the very place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def placed_texts(value: object, where: str) -> Iterator[tuple[str, str]]:
    """Every text in a value with its JSON Pointer, in order. That of a key is the pointer of its value, with `#`."""
    waiting = [(where, value)]
    while waiting:
        place, item = waiting.pop()
        if isinstance(item, str):
            yield place, item
        elif isinstance(item, dict):
            inner: list[tuple[str, object]] = []
            for key, member in item.items():
                pointer = f"{place}/{str(key).replace('~', '~0').replace('/', '~1')}"
                inner += [(f"{pointer}#", key), (pointer, member)]
            waiting += reversed(inner)
        elif isinstance(item, list | tuple):
            waiting += reversed([(f"{place}/{index}", member) for index, member in enumerate(item)])
