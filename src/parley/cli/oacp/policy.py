"""What an agent's config.yaml says about signatures. Parley holds no keys: it can only refuse, never vouch."""

from __future__ import annotations

from typing import NamedTuple

from parley.cli.oacp.files import explanation, is_no_mapping
from parley.cli.oacp.places import shown
from parley.domain.errors.errors import NotFound, ParleyError, Unreadable
from parley.domain.limits import DEFAULT_LIMITS

_FILE = "config.yaml"
_MODES = ("warn", "enforce")


class SigningPolicy(NamedTuple):
    """The `signing` block, or why the file cannot be used."""

    path: str
    block: object = None
    error: str = ""

    @property
    def verify_mode(self) -> str:
        """off, warn or enforce; enforce where the file cannot be read, because it may ask for that."""
        if self.error:
            return "enforce"
        mode = self.block.get("verify_mode") if isinstance(self.block, dict) else None
        word = mode.strip().lower() if isinstance(mode, str) else ""
        return word if word in _MODES else "off"

    def problem(self) -> str:
        """What keeps this agent from sending, in the tool's words; "" when nothing does."""
        if self.error:
            return f"cannot read sender config {self.path}: {self.error} — refusing to guess signing intent"
        if self.block is None:
            return ""
        if not isinstance(self.block, dict):
            return f"{self.path}: signing block must be a mapping"
        sign, kid = self.block.get("sign_messages"), self.block.get("kid")
        if sign is not None and not isinstance(sign, bool):
            return f"{self.path}: signing.sign_messages must be a boolean, got {sign!r}"
        if kid is not None and not (isinstance(kid, str) and kid.strip()):
            return f"{self.path}: signing.kid must be a non-empty string, got {kid!r}"
        return ""

    @property
    def signs(self) -> bool:
        return isinstance(self.block, dict) and self.block.get("sign_messages") is True


def policy_of(home: str, project: str, agent: str) -> SigningPolicy:
    """The signing policy of an agent that is there."""
    from parley.adapters.files.profiles import read_text
    from parley.adapters.files.workspace import Workspace

    path = shown(home, "projects", project, "agents", agent, _FILE)
    try:
        with Workspace(home, project).agent(agent).open() as folder:
            text = read_text(folder, _FILE)
    except NotFound:
        return SigningPolicy(path)
    except ParleyError as error:
        return SigningPolicy(path, error=f"cannot parse policy file {path}: {error.message}")
    # A file that never says `signing` has no such block, and need not be parsed to know it.
    return SigningPolicy(path) if text is None or "signing" not in text else _parsed(path, text)


def _parsed(path: str, text: str) -> SigningPolicy:
    from parley.wire.yaml.strict import read_strict

    try:
        read_strict(text, DEFAULT_LIMITS)
    except Unreadable as error:
        if is_no_mapping(error):
            return SigningPolicy(path, error=f"policy file {path} must be a YAML mapping")
        return SigningPolicy(path, error=f"cannot parse policy file {path}: {explanation(error, text.encode())}")
    import yaml

    # The strict reader has seen that it is one plain bounded mapping; this one gives the types back.
    fields: dict[str, object] = yaml.safe_load(text)
    return SigningPolicy(path, fields.get("signing"))
