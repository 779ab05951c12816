"""Somebody at a browser without script: it keeps a cookie, follows links and sends forms."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urlencode

from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from tests.conformance.ocip.governed import person
from tests.rigs.http_client import Answer, Client
from tests.rigs.team import LiveServer


class Visitor:
    """One browser. `origin` and `site` are what it says of the page that a form was on."""

    def __init__(self, server: LiveServer) -> None:
        self.host = f"127.0.0.1:{server.listener.port}"
        self.client: Client = server.with_key("")
        self.cookie = ""

    async def open(self, path: str, **headers: str) -> Answer:
        """Open an address, without following where it leads."""
        return self._keep(await self.client.request("GET", path, headers=self._headers(headers)))

    async def send(self, path: str, form: dict[str, str], **headers: str) -> Answer:
        """Send a form, as from a page of the server unless the headers say otherwise."""
        fields = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        given = self._headers({**fields, **{name.replace("_", "-"): value for name, value in headers.items()}})
        return self._keep(await self.client.request("POST", path, urlencode(form).encode(), given))

    async def sign_in(self, secret: str) -> Answer:
        """Sign in with a key."""
        return await self.send("/console/login", {"key": secret})

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        fields = {"Host": self.host, **({"Cookie": self.cookie} if self.cookie else {})}
        return {**fields, **{name: value for name, value in more.items() if value}}

    def _keep(self, answer: Answer) -> Answer:
        given = answer.headers.get("set-cookie")
        if given is not None:
            self.cookie = "" if "Max-Age=0" in given else given.partition(";")[0]
        return answer


async def signed_in(server: LiveServer, kind: KeyKind = KeyKind.ADMIN, tenant: str = DEFAULT_TENANT) -> Visitor:
    """A browser that signed in with a key of this kind."""
    visitor = Visitor(server)
    assert (await visitor.sign_in(await server.rig.key("", kind, tenant))).status == 303
    return visitor


async def person_signed_in(server: LiveServer, user: str = "ann") -> Visitor:
    """The browser of a person who signed in with a key of their own."""
    await person(server, user)
    visitor = Visitor(server)
    assert (await visitor.sign_in(server.rig.secrets[f"key_{DEFAULT_TENANT}_human_{user}"])).status == 303
    return visitor


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)


def text_of(answer: Answer) -> str:
    """What a page says, on one line."""
    reader = _Text()
    reader.feed(answer.body.decode())
    return re.sub(r"\s+", " ", " ".join(reader.pieces))


def field_of(answer: Answer, name: str) -> str:
    """The value of a field of the page's form."""
    found = re.search(rf'name="{name}" value="([^"]*)"', answer.body.decode())
    assert found is not None, name
    return found[1]
