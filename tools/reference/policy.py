"""docs/reference/policy.md: every key of a policy."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from parley.domain.rules.policy import KEYS, CrossOrg, PolicyKey
from parley.wire.files.policy import encode_value
from tools.reference.markdown import ROOT, table

POLICY_INTRO = """\
# Policies

A policy is a YAML document with one key, `agent-to-agent`, and below it any of these. It stands in one of four scopes:
`enterprise`, `org`, `team` or `user`. The documents of the enterprise set the values; the others can only narrow them.
How to write, check and change them: [Govern your agents](../how-to/govern-your-agents.md); why it is so:
[Governance](../explanation/governance.md#policies).

*Together* is how two values become one: of two scopes, of two documents of the enterprise, and of the two sides of an
exchange. Choices are listed with the strictest first. The default holds when the enterprise says nothing about a
key; unknown keys and wrong types are refused.
"""
POLICY_FILE = """
## The policy of a fresh install
"""


def policy_page() -> Iterator[str]:
    yield POLICY_INTRO
    meanings = policy_meanings()
    rows = [
        (f"`{name}`", policy_values(key), policy_default(key), key.meet.value, meanings[name])
        for name, key in KEYS.items()
    ]
    yield from table(("key", "values", "default", "together", "meaning"), rows)
    yield POLICY_FILE
    yield from ("```yaml", default_policy().rstrip("\n"), "```")


def default_policy() -> str:
    return (ROOT / "src" / "parley" / "policies" / "enterprise.yaml").read_text(encoding="utf-8")


def policy_meanings() -> dict[str, str]:
    """What the policy of a fresh install says above each key; a key may stand there as a comment."""
    meanings: dict[str, str] = {}
    above: list[str] = []
    for line in map(str.strip, default_policy().splitlines()):
        key = line.removeprefix("# ").partition(":")[0]
        if key in KEYS:
            meanings.setdefault(key, " ".join(above))
        elif line.startswith("#"):
            above.append(line.removeprefix("#").strip())
        else:
            above = []
    return meanings


def policy_values(key: PolicyKey) -> str:
    kind = type(key.default)
    if kind is bool:
        return "`true`, `false`"
    if kind is CrossOrg:
        return "`false`, `approval`, `true`"
    if issubclass(kind, StrEnum):
        return ", ".join(f"`{choice.value}`" for choice in kind)
    if kind is int:
        return f"{key.least} to {key.most}"
    return "list" if kind is tuple else "text"


def policy_default(key: PolicyKey) -> str:
    value = encode_value(key.default)
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    return ("`[" + ", ".join(value) + "]`" if value else "none") if isinstance(value, list) else f"`{value}`"
