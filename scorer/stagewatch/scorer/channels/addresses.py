"""Which network addresses a message may go to. A name is resolved once; what is checked is what
is connected to, so an answer that changes afterwards changes nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence

from stagewatch.core.errors import SettingsError, StagewatchError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], Sequence[str]]
"""(host, port) → addresses as text; raises OSError when there are none."""

# RFC 1123 and the underscore that names in use have; RFC 1035 bounds both lengths.
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_LONGEST_NAME = 253

# RFC 6052: addresses of this prefix stand for the IPv4 address in their last four bytes.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_host(text: str) -> bool:
    """Whether `text` can be the name or address of a host: labels of 1 to 63 characters, at most
    253 in all, ASCII (other letters as xn--…); or an IPv6 address without its brackets.
    """
    if ":" in text:
        try:
            ipaddress.IPv6Address(text)
        except ValueError:
            return False
        return True
    name = text.removesuffix(".")
    return len(name) <= _LONGEST_NAME and all(map(_LABEL.fullmatch, name.split(".")))


class AddressRefusedError(StagewatchError):
    """The address is one that messages must not go to; trying again will not help."""


def parse_networks(text: str) -> tuple[Network, ...]:
    """The networks of a setting: `10.1.0.0/16, 127.0.0.1/32`.

    Raises:
        SettingsError: a part is not a network.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return tuple(ipaddress.ip_network(part, strict=False) for part in parts)
    except ValueError:
        raise SettingsError(
            f"STAGEWATCH_ALERT_NETWORKS: {text!r}: use networks such as 10.1.0.0/16"
        ) from None


def real_address(address: str) -> IPAddress:
    """The address that packets go to: an IPv4 address inside an IPv6 one (mapped, 6to4, Teredo,
    NAT64) is taken out, a zone is left away.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return found
    if found.ipv4_mapped is not None:
        return found.ipv4_mapped
    if found.sixtofour is not None:
        return found.sixtofour
    if found.teredo is not None:
        return found.teredo[1]
    if found in _NAT64:
        return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    return found


def is_public(address: str) -> bool:
    """Whether the address is a public unicast one: not private, loopback, link-local (where cloud
    metadata lives), shared, multicast, reserved or unspecified.
    """
    found = real_address(address)
    if found.is_multicast or found.is_reserved or found.is_unspecified:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.is_site_local:
        return False
    return found.is_global


def is_allowed(address: str, allowed: Sequence[Network]) -> bool:
    """Whether a message may go there: public, or in a network that a setting names."""
    return is_public(address) or in_networks(address, allowed)


def in_networks(address: str, networks: Sequence[Network]) -> bool:
    """Whether the address lies in one of the networks."""
    found = real_address(address)
    return any(found.version == net.version and found in net for net in networks)


def system_resolver(host: str, port: int) -> list[str]:
    """Addresses by the system's resolver, in its order of preference."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


def checked_addresses(
    host: str, port: int, *, allowed: Sequence[Network], resolver: Resolver
) -> list[str]:
    """Addresses of `host`, every one of which may be used.

    One bad address refuses the name: it would be a matter of luck which one is taken.

    Raises:
        AddressRefusedError: an address is not allowed.
        OSError: the name has no address now.
    """
    found = list(resolver(host, port))
    if not found:
        raise OSError("the name has no address")
    bad = [item for item in found if not is_allowed(item, allowed)]
    if bad:
        raise AddressRefusedError(
            f"{host} is at {bad[0]}, which is not a public address: messages go there only when "
            "STAGEWATCH_ALERT_NETWORKS names its network"
        )
    return found
