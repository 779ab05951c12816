"""Errors: caught by class, told apart by code, with facts that a program can go on from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

import parley


def asked(client: parley.Client, channel_id: str) -> parley.ChannelMessage | None:
    try:
        return client.ask(channel_id, None, "bob", {"question": "?"}, timeout=1)
    except parley.MessageTimeoutError as error:
        assert_type(error.code, str)
        return None
    except parley.MessageHeld as error:
        assert_type(error.facts, Mapping[str, object])
        return None
    except (parley.RateLimited, parley.Unavailable) as error:
        assert_type(error.message, str)
        assert_type(error.hint, str)
        return None
    except parley.Denied:
        raise
    except parley.ParleyError as error:
        assert_type(error.problems, tuple[parley.Problem, ...])
        raise


def opened(client: parley.Client, intent_id: str) -> str:
    try:
        return client.create_channel(intent_id, "questions").id
    except parley.NameTaken as taken:
        return str(taken.facts["channel_id"])
    except (parley.Unauthorized, parley.Forbidden, parley.NotFound, parley.Invalid):
        return ""


def same(error: parley.AskTimeout) -> parley.MessageTimeoutError:
    return error
