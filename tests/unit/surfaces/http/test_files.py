from __future__ import annotations

import gzip

import pytest

from parley.surfaces.http.files import accepts_gzip, file_response, page_response
from parley.surfaces.http.http1.message import Request, common_fields, render

PAGE = b"<p>" + b"a page " * 1_000


def asking(accepted: bytes = b"") -> Request:
    return Request("GET", "/", headers={b"accept-encoding": accepted} if accepted else {})


@pytest.mark.parametrize("accepted", [b"gzip", b"br, GZIP;q=0.5", b"*", b"x-gzip", b"deflate, gzip, br"])
def test_gzip_is_accepted(accepted: bytes) -> None:
    assert accepts_gzip(accepted)


@pytest.mark.parametrize("accepted", [b"", b"br", b"gzip;q=0", b"gzip;q=0.000, *", b"identity", b"*;q=0"])
def test_gzip_is_not_accepted(accepted: bytes) -> None:
    assert not accepts_gzip(accepted)


@pytest.mark.parametrize("is_static", [True, False])
def test_a_page_is_compressed_for_who_reads_gzip_and_kept_by_no_cache(is_static: bool) -> None:
    given = page_response(asking(b"gzip"), PAGE, ((b"X-Own", b"1"),), is_static=is_static)
    plain = page_response(asking(), PAGE)

    assert gzip.decompress(given.body) == PAGE == plain.body
    assert dict(given.headers) == {b"X-Own": b"1", b"Content-Encoding": b"gzip", b"Vary": b"Accept-Encoding"}
    assert dict(plain.headers) == {b"Vary": b"Accept-Encoding"}
    assert b"Cache-Control: no-store\r\n" in render(given, common_fields(0), b"", headers_only=False)


def test_a_file_is_kept_for_a_year_and_nothing_else_of_its_answer_changes() -> None:
    sent = render(file_response(asking(b"gzip"), PAGE, b"text/css"), common_fields(0), b"", headers_only=True)

    assert sent.count(b"Cache-Control:") == 1
    assert b"Cache-Control: public, max-age=31536000, immutable\r\n" in sent
    assert b"X-Content-Type-Options: nosniff\r\n" in sent


@pytest.mark.parametrize(("body", "content_type"), [(b"short", b"text/css"), (PAGE, b"image/png")])
def test_what_is_short_or_compressed_already_is_sent_as_it_is(body: bytes, content_type: bytes) -> None:
    given = file_response(asking(b"gzip"), body, content_type)

    assert (given.body, given.headers) == (body, ())
