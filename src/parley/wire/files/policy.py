"""A policy document: YAML text with one key, `agent-to-agent`, and below it keys of `domain.rules.policy.KEYS`.

    agent-to-agent:
      cross_org: approval
      max_rounds: 3

All flaws of a document are named at once, each with its line and key.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from parley.domain.content.classification import Classification, ContentPattern
from parley.domain.content.envelope import Purpose
from parley.domain.errors.rules import PolicyInvalid
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.rules.policy import KEYS, CrossOrg, Fragment, ItemType, Meet, Scope
from parley.wire.files.document import FLAGS, Reading, invalid_file

if TYPE_CHECKING:
    from parley.domain.limits import Limits
    from parley.domain.message.message import Value
    from parley.wire.yaml.strict import Path

DOMAIN = "agent-to-agent"
# As OCIP writes it.
_CROSS_ORG = {"false": CrossOrg.DENY, "true": CrossOrg.ALLOW, "approval": CrossOrg.APPROVAL}
_LEVELS = {level.value: level for level in Classification}
_PURPOSES = {purpose.value: purpose for purpose in Purpose}
_PATTERN_KEYS = ("name", "pattern", "classification")
_MOST_ITEMS = 1_000
_LONGEST_WORD = 64
_LONGEST_TEXT = 200


def read_policy(text: str, name: str, limits: Limits = DEFAULT_LIMITS, *, scope: Scope | None = None) -> Fragment:
    """The keys that a document sets; `PolicyInvalid` names all its flaws, also in `facts["flaws"]`.

    `name` is the file's. With a scope, keys that only the enterprise may set are refused in documents of other scopes.
    """
    document = _PolicyReading(text, name, limits, dict.fromkeys(KEYS, f"put the settings under {DOMAIN}:"), DOMAIN)
    fragment = document.fragment()
    if scope not in (None, Scope.ENTERPRISE):
        for key in KEYS:
            if KEYS[key].meet is Meet.ENTERPRISE and getattr(fragment, key) is not None:
                document.wrong((DOMAIN, key), "misplaced", "only the enterprise's policy has this key")
    if document.flaws:
        raise invalid_file(PolicyInvalid, document.flaws)
    return fragment


def encode_value(value: Any) -> Any:  # noqa: ANN401  # of whatever a key holds
    """The value of a policy key as a document, or JSON, has it."""
    if isinstance(value, CrossOrg):
        return {CrossOrg.DENY: False, CrossOrg.ALLOW: True}.get(value, value.value)
    if isinstance(value, ContentPattern):
        return {"name": value.name, "pattern": value.pattern, "classification": value.classification.value}
    if isinstance(value, tuple):
        return [encode_value(item) for item in value]
    return value.value if isinstance(value, StrEnum) else value


class _PolicyReading(Reading):
    def fragment(self) -> Fragment:
        top = self.top((DOMAIN,), needs=(DOMAIN,))
        keys = self.fields((DOMAIN,), top.get(DOMAIN), tuple(KEYS))
        if top.get(DOMAIN) == {}:
            self.wrong((DOMAIN,), "wrong_type", "must hold at least one key")
        return Fragment(**{key: self._value((DOMAIN, key), value) for key, value in keys.items()})

    def _value(self, path: Path, value: Value) -> Any:  # noqa: ANN401  # of whatever the key holds
        key = KEYS[str(path[-1])]
        kind = type(key.default)
        if key.items is not None:
            readers = {
                ItemType.PURPOSE: self._purpose,
                ItemType.WORD: self._word,
                ItemType.PERSON: self.person,
                ItemType.PATTERN: self._pattern,
            }
            return self.items(path, value, readers[key.items], most=_MOST_ITEMS)
        if kind is bool:
            return self.one_of(path, value, FLAGS, plain=True)
        if kind is CrossOrg:
            return self.one_of(path, value, _CROSS_ORG, plain=value != "approval")
        if issubclass(kind, StrEnum):
            return self.one_of(path, value, {choice.value: choice for choice in kind})
        if kind is int:
            return self.number(path, value, key.least, key.most)
        return self.line(path, value, _LONGEST_TEXT)

    def _purpose(self, path: Path, value: Value) -> Purpose | None:
        return self.one_of(path, value, _PURPOSES)

    def _word(self, path: Path, value: Value) -> str | None:
        word = self.line(path, value, _LONGEST_WORD)
        if word and not any(map(str.isalnum, word)):
            self.wrong(path, "wrong_value", "has no letter")
        return word or None

    def _pattern(self, path: Path, value: Value) -> ContentPattern | None:
        fields = self.fields(path, value, _PATTERN_KEYS, needs=_PATTERN_KEYS)
        name = self.line((*path, "name"), fields.get("name"), _LONGEST_WORD)
        pattern = self.line((*path, "pattern"), fields.get("pattern"), _LONGEST_TEXT)
        level = self.one_of((*path, "classification"), fields.get("classification"), _LEVELS)
        return ContentPattern(name, pattern, level) if name and pattern and level else None
