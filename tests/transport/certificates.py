"""Certificates for tests, made on the spot with the openssl command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


class Authority:
    """Signs certificates; `certificate` is its own."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            pytest.skip("needs the openssl command")
        self._folder = folder
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.certificate,
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip

    def sign(self, name: str) -> tuple[Path, Path]:
        """A certificate for that common name, good for this machine, and its key."""
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        request, extra = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extra.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        _openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}", "-keyout", key, "-out", request,
        )  # fmt: skip
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
            "-CAcreateserial", "-days", "2", "-out", certificate, "-extfile", extra,
        )  # fmt: skip
        return certificate, key
