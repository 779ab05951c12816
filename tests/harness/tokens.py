"""Counting tokens as a model of OpenAI does (o200k), with the tokenizer that packages.toml pins."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

from tests.harness.packages import locked

_SCRIPT = """
const { countTokens } = require(process.argv[1]);
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => countTokens(text))));
"""


def count_tokens(texts: Sequence[str]) -> list[int]:
    """The tokens of each text."""
    command = ["node", "-e", _SCRIPT, str(locked()["tokenizer"].path)]
    ran = subprocess.run(command, input=json.dumps([*texts]), capture_output=True, text=True, check=True)
    counts: list[int] = json.loads(ran.stdout)
    return counts
