"""Certificates for encrypted connections."""

from __future__ import annotations

import dataclasses
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
