"""A PostgreSQL that encrypts, and certificates for it and for those who speak to it.

    with an_encrypting_cluster() as (cluster, papers):
        dsn = f"{cluster.dsn()}?sslmode=verify-full&sslrootcert={papers.authority}"

The server's certificate is for 127.0.0.1, and for no name.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.postgres.cluster import Cluster, a_cluster, a_folder
from tests.postgres.programs import account

# Who may come in with a certificate, and with nothing else.
CERTIFIED = "certified"
_HBA = f"hostssl all {CERTIFIED} 127.0.0.1/32 cert\nhost all {CERTIFIED} 127.0.0.1/32 reject\n"


class Authority:
    """Somebody who signs certificates."""

    def __init__(self, name: str) -> None:
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = self._begun(self._name, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        self.certificate = _pem(builder.sign(self._key, hashes.SHA256()))

    def sign(self, name: str, address: str = "") -> tuple[bytes, bytes]:
        """A certificate and its key: for whoever is called so, or lives there."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._begun(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
        if address:
            places = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
            builder = builder.add_extension(places, critical=False)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return _pem(builder.sign(self._key, hashes.SHA256())), key.private_bytes(*form)

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class Papers:
    """The files of one cluster and of its clients."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ours, other = Authority("ours"), Authority("other")
        self.authority = self._written("authority.crt", ours.certificate)
        self.other_authority = self._written("other.crt", other.certificate)
        self.client = self._pair("client", *ours.sign(CERTIFIED))
        self.strange_client = self._pair("strange", *other.sign(CERTIFIED))
        self._good, self._bad = ours.sign("server", "127.0.0.1"), other.sign("server", "127.0.0.1")
        self.server = self._folder / "server.crt", self._folder / "server.key"
        self.trusted(True)

    def trusted(self, good: bool) -> None:
        """Give the server a certificate that our authority has signed, or the other one; it counts after a reload."""
        self._pair("server", *(self._good if good else self._bad))
        if (other := account()) is not None:
            os.chown(self.server[1], other.pw_uid, other.pw_gid)

    def _pair(self, name: str, certificate: bytes, key: bytes) -> tuple[Path, Path]:
        return self._written(f"{name}.crt", certificate), self._written(f"{name}.key", key)

    def _written(self, name: str, text: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(text)
        path.chmod(0o600 if name.endswith(".key") else 0o644)
        return path


@contextmanager
def an_encrypting_cluster() -> Iterator[tuple[Cluster, Papers]]:
    with a_folder() as folder, a_cluster(fsync="on") as cluster:
        papers = Papers(folder)
        if not cluster.ask("SELECT current_setting('ssl_library')")[0][0]:
            if os.environ.get("CI"):
                pytest.fail("this PostgreSQL cannot encrypt")
            pytest.skip("this PostgreSQL cannot encrypt")
        certificate, key = map(str, papers.server)
        cluster.settings |= {"ssl": "on", "ssl_cert_file": certificate, "ssl_key_file": key}
        cluster.settings["ssl_ca_file"] = str(papers.authority)
        hba = cluster.data / "pg_hba.conf"
        hba.write_text(_HBA + hba.read_text())
        cluster.ask(f"CREATE ROLE {CERTIFIED} LOGIN")
        cluster.restart()
        yield cluster, papers
