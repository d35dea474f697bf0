"""Addresses and keys of servers: read from the environment, and shown without secrets."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from ipaddress import ip_address
from urllib.parse import quote
from urllib.request import getproxies

import httpx

from embed_ab.errors import InputError

# Not the plural: truncate_prompt_tokens is a number.
_SECRET_NAME = re.compile(
    r"(^|[_-]|api|access|secret|private|subscription)key$|token$|secret|passw|credential"
    r"|^auth(orization)?$|^sig(nature)?$|^code$",
    re.IGNORECASE,
)


def read_base_url(text: str, variable: str) -> httpx.URL:
    """Return the address in an environment variable; a name without a scheme gets http://.

    Raises: InputError that names the variable, and never the value, which may hold a password.
    """
    text = text.strip()
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
        host = url.host  # decoded here, which can fail
    except (httpx.InvalidURL, ValueError):
        url, host = httpx.URL(""), ""
    if url.scheme not in ("http", "https") or not _is_host(host) or (url.port or 0) > 65535:
        raise InputError(
            f"{variable} is not the address of a server",
            hint=f"Write {variable}=http://localhost:8000.",
        )
    return url


def without_endpoint(url: httpx.URL, endpoint: str, default: str = "/") -> httpx.URL:
    """Return an address without the endpoint at its path's end; an empty path becomes `default`.

    What is percent-encoded in it stays so: %2F is part of a name, and / is not.
    """
    path, mark, query = url.raw_path.partition(b"?")
    path = path.rstrip(b"/")
    path = path.removesuffix(endpoint.encode()) or b"/" if path else default.encode()
    return url.copy_with(raw_path=path + mark + query)


def host_and_path(url: httpx.URL) -> str:
    """Return host and path of an address, without user, password and query."""
    return f"{url.netloc.decode()}{url.raw_path.partition(b'?')[0].decode()}"


def _is_host(name: str) -> bool:
    try:
        name.encode("ascii" if ":" in name else "idna")  # what the system's lookup will do
    except UnicodeError:
        return False
    return bool(name)


def is_secret_name(name: str) -> bool:
    """Return whether a field or parameter of this name is likely to hold a key."""
    return bool(_SECRET_NAME.search(name))


def bearer(key: str, variable: str) -> dict[str, str]:
    """Return the header that carries the key of an environment variable, none for "".

    Raises: InputError that names the variable, and never the key.
    """
    if not key:
        return {}
    if not re.fullmatch("[!-~]+", key):
        raise InputError(
            f"{variable} holds a character that no key has",
            hint="Copy it again: one word of letters, digits and signs.",
        )
    return {"Authorization": f"Bearer {key}"}


def is_loopback(url: httpx.URL) -> bool:
    """Return whether an address is this machine."""
    host = url.host.removesuffix(".")
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def shown(url: httpx.URL) -> str:
    """Return an address for messages: without a password, and with no value of its query.

    The version in an Azure address is the one value that is no secret and explains errors.
    """
    names = [
        f"{name}={value if name == 'api-version' else '…'}"
        for name, value in url.params.multi_items()
    ]
    bare = str(url.copy_with(username=None, password=None, query=None, fragment=None))
    return f"{bare}?{'&'.join(names)}" if names else bare


def secrets_of(url: httpx.URL, headers: Mapping[str, str]) -> list[str]:
    """Return what must not show: keys in headers, passwords and parameters of addresses.

    Of the proxies too that the environment names. Each as it is, as it is sent and as a page shows
    it; the longest first, because one may hold another.
    """
    found = {value.split()[-1] for value in headers.values() if value.strip()}
    addresses = [url]
    for proxy in getproxies().values():
        with suppress(httpx.InvalidURL, ValueError):
            addresses.append(httpx.URL(proxy))
    for address in addresses:
        if address.password:
            user = f"{address.username}:{address.password}".encode()
            found |= {address.password, base64.b64encode(user).decode()}
    for name, value in url.params.multi_items():
        if name != "api-version" and len(value) > 3:  # a shorter one would make holes in words
            found.add(value)
    found |= {form(text) for text in found for form in (lambda text: quote(text, safe=""), escape)}
    return sorted(found - {""}, key=len, reverse=True)
