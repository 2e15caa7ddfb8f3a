"""Signatures of outgoing webhooks, in the format of the Standard Webhooks specification
(standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`, base64, versioned `v1`. Pure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import datetime

from stagewatch.core.errors import InvalidInputError

PREFIX = "whsec_"
_LEAST_BYTES, _MOST_BYTES = 24, 64


def new_secret(random: bytes) -> str:
    """A secret from 24 to 64 random bytes."""
    return PREFIX + base64.b64encode(random).decode()


def secret_bytes(secret: str) -> bytes:
    """The key inside a secret.

    Raises:
        InvalidInputError: it is not `whsec_` and 24 to 64 bytes in base64.
    """
    try:
        found = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        found = b""
    if not _LEAST_BYTES <= len(found) <= _MOST_BYTES:
        raise InvalidInputError("secret: use whsec_ and 24 to 64 bytes in base64, or env:NAME")
    return found


def signed_headers(secret: str, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The three headers a receiver checks.

    Args:
        secret: as `new_secret` gives it.
        message_id: the same for every try of a message.
        at: time of this try; receivers refuse what is older than a few minutes.
        body: the exact bytes sent.
    """
    stamp = str(int(at.timestamp()))
    signed = f"{message_id}.{stamp}.".encode() + body
    digest = hmac.new(secret_bytes(secret), signed, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": stamp,
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }
