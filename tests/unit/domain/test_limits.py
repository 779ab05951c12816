"""The limits that Parley promises."""

from parley.domain.limits import DEFAULT_LIMITS, HARD_FILE_BYTES


def test_the_defaults_are_those_that_were_promised() -> None:
    assert DEFAULT_LIMITS._asdict() == {
        "file_bytes": 256 * 1024,
        "yaml_depth": 16,
        "yaml_nodes": 5_000,
        "id_chars": 200,
        "subject_chars": 200,
        "tag_chars": 64,
        "body_chars": 20_000,
        "context_words": 500,
        "recipients": 10,
        "tries": 5,
        "inbox_messages": 50_000,
    }
    assert HARD_FILE_BYTES == 1024 * 1024
