"""A workflow file is read, or refused with its flaws and their lines."""

from __future__ import annotations

from parley.domain.errors.workflow import WorkflowInvalid
from parley.wire.files.workflow import read_workflow


def check(data: bytes) -> None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    try:
        read_workflow(text, "fuzz.yaml")
    except WorkflowInvalid as error:
        flaws = error.facts["flaws"]
    else:
        return
    assert flaws, "refused without a flaw"
