"""Lists that are read item by item."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

T = TypeVar("T")


async def collect(items: AsyncIterable[T]) -> list[T]:
    """All of them."""
    return [item async for item in items]
