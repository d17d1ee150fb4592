"""Certificates for encrypted connections.

All processes of a cluster can be given theirs by the environment: ``DRUMLINE_TLS_CERTIFICATE`` and
``DRUMLINE_TLS_KEY``, a process's own, and ``DRUMLINE_TLS_AUTHORITIES``, whom to believe, all PEM
files; ``DRUMLINE_TLS_SERVER_NAME`` where the certificates name another host than the cluster does.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class ServerTls:
    """How a server shows who it is, and whether clients must.

    Attributes:
        certificate: its certificate chain, a PEM file.
        key: the certificate's private key, a PEM file.
        client_authorities: certificates that a client's must be signed by, a PEM file; None asks
            clients for no certificate.
    """

    certificate: Path
    key: Path
    client_authorities: Path | None = None


@dataclasses.dataclass(frozen=True)
class ClientTls:
    """Which servers a client believes, and how it shows who it is.

    Attributes:
        authorities: certificates that the server's must be signed by, a PEM file.
        certificate: its own certificate chain, a PEM file, where servers ask for one.
        key: the private key of `certificate`, a PEM file.
        server_name: the name in the servers' certificates, where it is not their host in the
            cluster.
    """

    authorities: Path
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None


def server_tls() -> ServerTls | None:
    """As the environment says; clients need a certificate if it names authorities.

    Raises:
        ValueError: if it names a certificate without its key, or the other way round.
    """
    certificate, key = _own()
    if certificate is None or key is None:
        return None
    return ServerTls(certificate, key, _file("AUTHORITIES"))


def client_tls() -> ClientTls | None:
    """As the environment says.

    Raises:
        ValueError: as `server_tls`.
    """
    authorities = _file("AUTHORITIES")
    if authorities is None:
        return None
    return ClientTls(authorities, *_own(), os.environ.get("DRUMLINE_TLS_SERVER_NAME"))


def _own() -> tuple[Path | None, Path | None]:
    certificate, key = _file("CERTIFICATE"), _file("KEY")
    if (certificate is None) != (key is None):
        raise ValueError(
            "DRUMLINE_TLS_CERTIFICATE and DRUMLINE_TLS_KEY go together: set both, or neither."
        )
    return certificate, key


def _file(name: str) -> Path | None:
    path = os.environ.get(f"DRUMLINE_TLS_{name}")
    return Path(path) if path else None
