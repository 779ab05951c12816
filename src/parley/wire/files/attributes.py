"""Read what a file says about an agent: its org unit, its person, and what it may know and do."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from parley.domain.agents.party import Attributes
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose
from parley.wire.files.document import FLAGS, Reading

if TYPE_CHECKING:
    from parley.domain.message.message import Value
    from parley.wire.yaml.strict import Path

LEVELS = {level.value: level for level in Classification}
PURPOSES = {purpose.value: purpose for purpose in Purpose}
_KEYS = tuple([field.name for field in fields(Attributes)])
_MOST_ROUNDS = 999_999_999


class AttributesReading(Reading):
    """A file that describes agents."""

    def attributes(self, path: Path, value: Value) -> Attributes:
        """The attributes of an agent; a key that is left out has its default."""
        keys = self.fields(path, value, _KEYS)
        return Attributes(**{key: self._attribute((*path, key), field) for key, field in keys.items()})

    def _attribute(self, path: Path, value: Value) -> Any:  # noqa: ANN401  # of whatever the key holds
        key = path[-1]
        if key in ("can_receive_queries", "can_auto_respond"):
            return self.one_of(path, value, FLAGS, plain=True)
        if key == "max_classification":
            return self.one_of(path, value, LEVELS)
        if key == "supported_exchange_types":
            return self.items(path, value, lambda at, item: self.one_of(at, item, PURPOSES), distinct=False)
        if key == "max_rounds_accepted":
            return self.number(path, value, 1, _MOST_ROUNDS)
        return self.person(path, value) if key == "user_id" else self.name(path, value)
