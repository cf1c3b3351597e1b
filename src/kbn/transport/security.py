"""TLS: contexts for either side, and whose certificate the other showed."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from kbn.errors import InvalidInputError


def server_tls(
    certificate: str | Path, key: str | Path, client_ca: str | Path | None = None
) -> ssl.SSLContext:
    """How a broker shows who it is.

    With `client_ca`, everybody who connects must show a certificate of that authority, and may only
    use the name it says (its common name).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificate(context, certificate, key)
    if client_ca is not None:
        _load_authority(context, client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_tls(
    ca: str | Path | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
) -> ssl.SSLContext:
    """How a client (or a broker that connects to another) makes sure whom it talks to.

    Without `ca`, the authorities the system trusts count. The host's name is always checked.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load_authority(context, ca)
    if certificate is not None:
        _load_certificate(context, certificate, certificate if key is None else key)
    return context


def common_name(certificate: Any) -> str | None:
    """The common name of a certificate, as `getpeercert` tells it; None without one."""
    if not certificate:
        return None
    names = [
        value
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    ]
    return names[0] if names else None


def _load_certificate(context: ssl.SSLContext, certificate: str | Path, key: str | Path) -> None:
    for path in (certificate, key):
        _check_readable(path)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            what = f"the key in {key} is not that of the certificate in {certificate}"
        elif certificate == key:
            what = f"{certificate} has no certificate with its key (--tls-key names another file)"
        else:
            what = f"{certificate} and {key} are not a certificate and its key, in PEM form"
        raise InvalidInputError(what) from None


def _load_authority(context: ssl.SSLContext, path: str | Path) -> None:
    _check_readable(path)
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError):
        raise InvalidInputError(f"{path} has no certificate of an authority, in PEM form") from None


def _check_readable(path: str | Path) -> None:
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}") from None
