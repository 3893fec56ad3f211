"""Where may be called: threats T01 and T02."""

from __future__ import annotations

import ipaddress

import pytest

from ibi.errors import ForbiddenAddress
from ibi.http.client import AddressPolicy, HostPort

pytestmark = pytest.mark.proves("MSG-03", "AMB-54")


@pytest.mark.parametrize(
    ("text", "host", "port", "spelled"),
    [
        ("mtc-m16c.sid.inpe.br", "mtc-m16c.sid.inpe.br", 80, "mtc-m16c.sid.inpe.br"),
        ("MTC-M16C.sid.inpe.br:80", "mtc-m16c.sid.inpe.br", 80, "mtc-m16c.sid.inpe.br"),
        ("archive.example:8080", "archive.example", 8080, "archive.example:8080"),
        ("archive.example.", "archive.example", 80, "archive.example"),
        ("localhost:1905", "localhost", 1905, "localhost:1905"),
        ("192.0.2.7", "192.0.2.7", 80, "192.0.2.7"),
        ("[2001:DB8::7]:8080", "2001:db8::7", 8080, "[2001:db8::7]:8080"),
        ("[::1]", "::1", 80, "[::1]"),
    ],
)
def test_an_address_is_a_host_with_an_optional_port(text: str, host: str, port: int, spelled: str) -> None:
    place = HostPort.parse(text)
    assert (place.host, place.port, str(place)) == (host, port, spelled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":80",
        "a b",
        "a\r\nHost: b",
        "user@archive.example",
        "user:word@archive.example",
        "archive.example/path",
        "archive.example?query",
        "archive.example#part",
        "archive.example\\@good.example",
        "archive%2eexample",
        "http://archive.example",
        "archive.example:",
        "archive.example:0",
        "archive.example:080",
        "archive.example:65536",
        "archive.example:80:80",
        "archive.example:-1",
        "archive.example:8 0",
        "-archive.example",
        "archive-.example",
        "archive..example",
        ".example",
        "archive_1.example",
        "127.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "127.0.0.0x1",
        "2130706433",
        "1.2.3.4.5",
        "1.2.3.256",
        "192.0.2.007",
        "archive.example.9",
        "[::1",
        "::1",
        "[::1]x",
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]",
        "[127.0.0.1]",
        "[archive.example]",
        "①②⑦.0.0.1",
        "archive.example:８０",
        "arquivo.exámple",
        "\u212a.example",
        "a" * 64 + ".example",
        ".".join(["a" * 50] * 6),
    ],
)
def test_nothing_else_is_an_address(text: str) -> None:
    with pytest.raises(ForbiddenAddress) as caught:
        HostPort.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("port", [22, 25, 53, 445, 3306, 5432, 6379, 9200, 11211, 27017])
def test_ports_of_other_services_are_refused_whatever_the_policy(port: int) -> None:
    with pytest.raises(ForbiddenAddress):
        HostPort.parse(f"archive.example:{port}")


PUBLIC = ("150.163.34.239", "8.8.8.8", "2606:4700::1111", "2001:12f0::1")
THIS_MACHINE_AND_LOCAL_NETWORKS = (
    "127.0.0.1",
    "127.77.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "::1",
    "fd00::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
)
NEVER = (
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:0808:0808::1",
    "fe80::1",
    "fe80::1%lo",
    "2606:4700::1111%eth0",
    "fec0::1",
    "ff02::1",
    "archive.example",
    "",
)


@pytest.mark.parametrize("ip", PUBLIC)
def test_public_addresses_are_open(ip: str) -> None:
    AddressPolicy().check(ip)


@pytest.mark.parametrize("ip", THIS_MACHINE_AND_LOCAL_NETWORKS + NEVER)
def test_what_is_not_public_is_closed_by_default(ip: str) -> None:
    with pytest.raises(ForbiddenAddress):
        AddressPolicy().check(ip)


@pytest.mark.parametrize("ip", PUBLIC + THIS_MACHINE_AND_LOCAL_NETWORKS)
def test_an_operator_may_open_this_machine_and_private_networks(ip: str) -> None:
    AddressPolicy(allow_private=True).check(ip)


@pytest.mark.parametrize("ip", NEVER)
def test_an_operator_opens_nothing_else_by_that(ip: str) -> None:
    with pytest.raises(ForbiddenAddress):
        AddressPolicy(allow_private=True).check(ip)


def test_the_default_refuses_every_corner_of_loopback() -> None:
    policy = AddressPolicy()
    network = ipaddress.ip_network("127.0.0.0/8")
    for number in range(int(network[0]), int(network[-1]) + 1, 65_521):
        with pytest.raises(ForbiddenAddress):
            policy.check(str(ipaddress.ip_address(number)))


def test_a_network_can_be_declared_public() -> None:
    policy = AddressPolicy(public=(ipaddress.ip_network("127.77.0.0/16"),))
    policy.check("127.77.3.4")
    for ip in ("127.78.0.1", "127.0.0.1", "10.0.0.1"):
        with pytest.raises(ForbiddenAddress):
            policy.check(ip)
