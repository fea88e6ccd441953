"""The table of `stream-dedup feeds`: [feeds]."""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from pydantic import Field, field_validator

from stream_dedup.settings.values import Table

_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


class FeedsSettings(Table):
    """What `stream-dedup feeds` may ask."""

    internal: str = Field(
        "",
        description="Hosts and networks, separated by commas, that may be asked on any port although they are not "
        "public, such as news.intern, 10.1.0.0/16. Others are asked at public addresses on ports 80 and 443 only, "
        "whatever a feed, a page or a redirect says. A listed feed needs no entry, unless it is redirected to another "
        "host, or --pages shall read its host.",
    )

    @field_validator("internal")
    @classmethod
    def _names_hosts(cls, value: str) -> str:
        for one in _listed(value):
            if _network(one) is None and not _NAME.fullmatch(one):
                raise ValueError(
                    f"{one[:40]!r} is neither a host nor a network; write names, addresses and networks such as "
                    "news.intern, 10.1.0.0/16, without scheme and port"
                )
        return value

    def is_internal(self, host: str, *addresses: IPv4Address | IPv6Address) -> bool:
        """Whether the operator named this host, or networks with all the addresses at which it is.

        >>> from ipaddress import ip_address
        >>> settings = FeedsSettings(internal="news.intern, 10.1.0.0/16")
        >>> [settings.is_internal(host, ip_address("10.1.2.3")) for host in ("news.intern", "a.example")]
        [True, True]
        >>> settings.is_internal("a.example", ip_address("10.2.2.3"))
        False
        """
        named = _listed(self.internal)
        networks = [network for one in named if (network := _network(one))]
        return host in named or (bool(addresses) and all(any(one in each for each in networks) for one in addresses))


def _listed(text: str) -> list[str]:
    return [one.strip().lower() for one in text.split(",") if one.strip()]


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None
