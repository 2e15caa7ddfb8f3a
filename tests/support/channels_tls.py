"""A certificate that nobody vouches for, by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


def self_signed(folder: Path, name: str) -> tuple[Path, Path]:
    """(certificate, key) files for `name`."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key
