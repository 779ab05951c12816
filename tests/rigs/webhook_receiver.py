"""A receiver of webhooks on a loopback port: keeps what it got, answers as told, over http or https."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.rigs.asyncio_servers import stop_accepting

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Got(NamedTuple):
    """One request as it came."""

    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document["data"]
        return found

    @property
    def text(self) -> str:
        """What `Rig.say` said."""
        return str(self.data["payload"]["text"])


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {code} Whatever", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass
class Receiver:
    """`answer` is the bytes of every answer, or makes them from the request; None keeps the sender waiting."""

    port: int = 0
    scheme: str = "http"
    answer: bytes | Callable[[Got], bytes] | None = OK
    # Pieces sent without end after the answer, to see who stops listening.
    drips: bytes = b""
    got: list[Got] = field(default_factory=list)
    connections: int = 0
    came: asyncio.Event = field(default_factory=asyncio.Event)
    open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.got]

    async def until(self, number: int) -> list[Got]:
        """The requests, once there are so many."""
        async with asyncio.timeout(30):
            while len(self.got) < number:
                self.came.clear()
                await self.came.wait()
        return self.got

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.open[task] = writer
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in head[1:] if one)}
            got = Got(head[0].split()[1], fields, await reader.readexactly(int(fields["content-length"])))
            self.got.append(got)
            self.came.set()
            if self.answer is None:
                await reader.read()
                return
            writer.write(self.answer if isinstance(self.answer, bytes) else self.answer(got))
            while self.drips and not writer.is_closing():
                writer.write(self.drips)
                await writer.drain()
                await asyncio.sleep(0.01)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()
            del self.open[task]

    async def hang_up(self) -> None:
        """End every connection, and wait until it is seen."""
        open_now = dict(self.open)
        for writer in open_now.values():
            writer.transport.abort()
        await asyncio.gather(*open_now)


@asynccontextmanager
async def receiving(context: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """Receive until the end of the block."""
    receiver = Receiver(scheme="https" if context else "http")
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=context)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        await stop_accepting(server)
        await receiver.hang_up()


def certified(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server called `name` needs for https, and what a client that trusts only it needs."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "cert.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(public, private)
    return serves, ssl.create_default_context(cafile=str(public))


@contextmanager
def a_receiver() -> Iterator[Receiver]:
    """A receiver of webhooks in a thread of its own."""
    made: list[Receiver] = []
    ready, over = threading.Event(), threading.Event()

    async def receive() -> None:
        async with receiving() as receiver:
            made.append(receiver)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(receive()))
    thread.start()
    ready.wait()
    try:
        yield made[0]
    finally:
        over.set()
        thread.join()
