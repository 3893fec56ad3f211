"""The root of public URLs: chosen, of a server with TLS, as a trusted proxy says, or of the address."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from ibi.errors import SetupError
from ibi.http.public_url import PublicURL, TLSPorts
from ibi.http.request import Request
from ibi.identifier.forms import IBIForms
from ibi.runtime.settings import ResolverSettings

SERVICE = IBIForms.parse("rep urlib.net/www/2010/11.30.00.00")
PROXIES = (ip_network("10.0.0.0/8"),)


def _settings(**more: Any) -> ResolverSettings:
    return ResolverSettings(address="urlib.net:8080", service=SERVICE, aliases=("www.urlib.net",), **more)


def _root(settings: ResolverSettings, peer: str = "10.1.1.1", **headers: str) -> str:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    request = Request("GET", "/", "", named, peer=peer)
    return PublicURL(settings, PROXIES).of(request)


def test_it_is_http_and_the_address_by_default() -> None:
    assert _root(_settings()) == _settings().root == "http://urlib.net:8080"


def test_a_trusted_proxy_is_believed_about_the_scheme_and_a_host_of_ours() -> None:
    assert _root(_settings(), x_forwarded_proto="https", host="urlib.net:8080") == "https://urlib.net:8080"
    assert _root(_settings(), x_forwarded_proto=" HTTPS ", host="WWW.urlib.net") == "https://www.urlib.net"
    named = {"x_forwarded_host": "www.urlib.net", "host": "127.0.0.1:8080"}
    assert _root(_settings(), x_forwarded_proto="https", **named) == "https://www.urlib.net"
    assert _root(_settings(), x_forwarded_proto="http", **named) == "http://urlib.net:8080"


@pytest.mark.parametrize("host", ["evil.example", "urlib.net@evil.example", "urlib.net/x", "urlib.net:1", ""])
def test_it_is_not_believed_about_another_host(host: str) -> None:
    assert _root(_settings(), x_forwarded_proto="https", x_forwarded_host=host) == "https://urlib.net"


@pytest.mark.parametrize(
    ("proxies", "chosen", "varies"),
    [
        ((), "", False),
        (PROXIES, "", True),
        ((), "https://a.example", False),
        (PROXIES, "https://a.example", False),
    ],
)
def test_it_depends_on_the_request_only_behind_a_proxy(proxies: Any, chosen: str, varies: bool) -> None:
    assert PublicURL(_settings(public_url=chosen), proxies).varies is varies


def test_others_are_not_believed() -> None:
    claims = {"x_forwarded_proto": "https", "x_forwarded_host": "www.urlib.net"}
    assert _root(_settings(), peer="192.0.2.1", **claims) == "http://urlib.net:8080"
    assert _root(_settings(), peer="", **claims) == "http://urlib.net:8080"


def test_what_the_operator_has_chosen_holds_whatever_a_proxy_says() -> None:
    chosen = _settings(public_url="https://ids.example/")
    assert _root(chosen, x_forwarded_proto="http", host="www.urlib.net") == "https://ids.example"
    assert chosen.addresses == ("urlib.net:8080", "www.urlib.net", "ids.example")


@pytest.mark.parametrize(
    ("address", "bind", "plain", "root"),
    [
        ("a.example", "127.0.0.1:8443", "", "https://a.example"),
        ("a.example:8443", "127.0.0.1:8443", "", "https://a.example:8443"),
        ("a.example:443", "127.0.0.1:8443", "", "https://a.example"),
        ("a.example", "127.0.0.1:8443", "127.0.0.1:80", "https://a.example:8443"),
        ("a.example:8081", "0.0.0.0:443", "0.0.0.0:8081", "https://a.example"),
        ("[2001:db8::1]:8081", "[::]:8443", "[::]:8081", "https://[2001:db8::1]:8443"),
    ],
)
def test_a_server_with_tls_is_known_by_the_port_where_it_listens(
    address: str, bind: str, plain: str, root: str
) -> None:
    assert TLSPorts(bind, plain).root(address) == root


@pytest.mark.parametrize(
    "text",
    [
        "https://", "archive.example", "ftp://archive.example", "https://a@archive.example", "https://a.example/x",
        "https://a.example?x", "https://a.example:0", "https://a.example:65536", "https://a.example//", "HTTPS://a.b",
    ],
)  # fmt: skip
def test_a_public_url_is_a_scheme_and_a_host(text: str) -> None:
    with pytest.raises(SetupError, match="a public URL is a scheme and a host"):
        ResolverSettings.RULES["public_url"]("public_url", text)


@pytest.mark.parametrize("text", ["", "https://a.example", "https://a.example/", "http://[::1]:8080"])
def test_a_root_is_accepted(text: str) -> None:
    ResolverSettings.RULES["public_url"]("public_url", text)
