"""Facts that repeat from entry to entry: their canonical JSON is made once, and filled in with what differs.

    {"action":"agent_exchange", ... ,"round":2, ... ,"seq":7, ...}      of 45 fields, 14 differ between two messages

Canonical JSON has its keys in order, so what stands between two values that differ is always the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    Encode = Callable[[dict[str, Any]], bytes]


# What only the commit knows of an entry: the hash of the entry before, and its place on its side.
_CHAIN_FIELDS = ("prev_hash", "seq")


class AroundChain(NamedTuple):
    """A document without its place in the chain: its beginning with gaps for values, and what follows."""

    head: str
    values: Callable[[Mapping[str, str]], tuple[str, ...]]
    between: str
    end: str

    def filled_in(self, fields: Mapping[str, str]) -> tuple[str, str, str]:
        """The document before, between and behind the hash of the entry before and its place."""
        head, values, between, end = self
        return head % values(fields), between, end


class FactsTemplate:
    """The facts of an entry that are the same in others like it."""

    __slots__ = ("_names", "_texts", "_values", "fixed")

    def __init__(self, facts: Mapping[str, Any], varying: tuple[str, ...]) -> None:
        self.fixed = {name: fact for name, fact in facts.items() if name not in varying}
        # What stands between the values that differ, and their names; made when the first document is.
        self._names: list[str] = []
        self._texts: list[str] = []
        self._values: Callable[[Mapping[str, str | int]], tuple[str | int, ...]] = tuple

    def document(self, fields: Mapping[str, str | int], encode: Encode) -> bytes:
        """The canonical JSON of the fixed facts with these fields, which must always be of the same names and types."""
        if not self._texts:
            self._prepare(fields, encode)
        values = [str(value) for value in self._values(fields)]
        if not is_written_as_it_is("".join(values)):
            return encode({**self.fixed, **fields})
        parts = [""] * (2 * len(values) + 1)
        parts[::2], parts[1::2] = self._texts, values
        return "".join(parts).encode()

    def around_chain(self, constants: Mapping[str, str]) -> AroundChain | None:
        """The document around its place in the chain, for values that need no escaping; `constants` never differ.

        None until the first document was made, or where something that differs stands behind the place.
        """
        if not self._texts:
            return None
        texts, names = [""], list[str]()
        for text, name in zip(self._texts, [*self._names, ""], strict=True):
            texts[-1] += text
            if name in constants:
                texts[-1] += constants[name]
            elif name:
                texts.append("")
                names.append(name)
        if tuple(names[-len(_CHAIN_FIELDS) :]) != _CHAIN_FIELDS:
            return None
        *pieces, between, end = texts
        head = "%s".join([piece.replace("%", "%%") for piece in pieces])
        return AroundChain(head, itemgetter(*names[: -len(_CHAIN_FIELDS)]), between, end)

    def _prepare(self, fields: Mapping[str, str | int], encode: Encode) -> None:
        texts, text = [], "{"
        for name in sorted({*self.fixed, *fields}):
            if name not in fields:
                text += encode({name: self.fixed[name]}).decode()[1:-1] + ","
                continue
            quote = '"' if isinstance(fields[name], str) else ""
            texts.append(f'{text}"{name}":{quote}')
            text = f"{quote},"
        self._names = sorted(fields)
        self._values = itemgetter(*self._names)
        self._texts = [*texts, text[:-1] + "}"]


def is_written_as_it_is(text: str) -> bool:
    """Whether JSON has this text as it is: nothing in it is escaped."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


class RepeatedFacts(Mapping[str, Any]):
    """The facts of one entry: those of a template, and its own values."""

    __slots__ = ("template", "values_by_name")

    def __init__(self, template: FactsTemplate, values_by_name: Mapping[str, str | int]) -> None:
        self.template = template
        self.values_by_name = values_by_name

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # whatever the fact is
        return self.values_by_name[name] if name in self.values_by_name else self.template.fixed[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.template.fixed
        yield from self.values_by_name

    def __len__(self) -> int:
        return len(self.template.fixed) + len(self.values_by_name)
