"""Story files: steps with what goes in and the answer that was recorded for it.

A step names values of its answer (`save`), and later steps use them as `{name}`. Text with other braces stays as it is.
`{"signed_by": 1, "text": "{challenge}"}` becomes the signature of that text by the Ed25519 key whose seed is that byte.
"""

from __future__ import annotations

import base64
import difflib
import json
import re
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Step = dict[str, Any]
Answer = dict[str, Any]

FOLDER = Path(__file__).parent
_VARIABLE = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def names(kind: str) -> list[str]:
    """The stories of a kind (`http` or `commands`), sorted."""
    return sorted(path.stem for path in (FOLDER / kind).glob("*.json"))


def load(kind: str, name: str) -> dict[str, Any]:
    story: dict[str, Any] = json.loads((FOLDER / kind / f"{name}.json").read_text(encoding="utf-8"))
    return story


def save_answers(kind: str, name: str, answers: list[Answer]) -> None:
    """Put answers into a story's file, beside the steps that they answer."""
    story = load(kind, name)
    for step, answer in zip(story["steps"], answers, strict=True):
        step["answer"] = answer
    text = json.dumps(story, indent=1, ensure_ascii=False)
    (FOLDER / kind / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def filled(template: object, variables: dict[str, str]) -> Any:  # noqa: ANN401  # the same type as the template
    """The template with the values of variables in all its texts."""
    if isinstance(template, str):
        return _VARIABLE.sub(lambda match: variables.get(match[1], match[0]), template)
    if isinstance(template, dict):
        if template.keys() == {"signed_by", "text"}:
            return _signature(template["signed_by"], filled(template["text"], variables))
        return {filled(name, variables): filled(value, variables) for name, value in template.items()}
    if isinstance(template, list):
        return [filled(item, variables) for item in template]
    return template


def _signature(seed: int, text: str) -> str:
    signature = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32).sign(text.encode())
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


def saved_values(step: Step, document: object) -> dict[str, str]:
    """What a step takes from its answer. A place is a path of names and numbers: `entries.0.id`."""
    values: dict[str, str] = {}
    for name, place in step.get("save", {}).items():
        found: Any = document
        try:
            for part in place.split("."):
                found = found[int(part) if isinstance(found, list) else part]
        except (LookupError, TypeError, ValueError):
            raise AssertionError(f"{step['name']}: the answer has no {place}: {document}") from None
        values[name] = str(found)
    return values


def difference(title: str, recorded: Answer, answer: Answer) -> str:
    """A readable diff of two answers; empty when they are the same."""
    if recorded == answer:
        return ""
    before, now = (json.dumps(one, indent=1, ensure_ascii=False).splitlines() for one in (recorded, answer))
    return "\n".join([title, *difflib.unified_diff(before, now, "recorded", "now", n=2, lineterm="")])


def differences(story: dict[str, Any], answers: list[Answer]) -> str:
    """The diffs of all steps."""
    steps = story["steps"]
    assert len(steps) == len(answers)
    found = [
        difference(f"step {number}: {step['name']}", step.get("answer", {}), answer)
        for number, (step, answer) in enumerate(zip(steps, answers, strict=True), 1)
    ]
    return "\n\n".join(diff for diff in found if diff)
