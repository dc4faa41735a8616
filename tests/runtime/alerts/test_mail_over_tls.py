"""Alerts by e-mail over TLS, by STARTTLS and from the start: only to a trusted server."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headrace.core.alerts.alert import AlertRow
from headrace.runtime.alerts.channels import Channel, Undelivered, channel
from headrace.runtime.alerts.notify import deliver
from tests.runtime.alerts.receivers import Mailbox, mail_server

NOW = 1_700_000_000_000
BELL = AlertRow(
    id="a", rule="deep", series={}, labels={}, severity="critical", state="firing", since=NOW, summary="deep"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of this machine, with its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=mail")
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    path = tmp_path_factory.mktemp("tls") / "mail.pem"
    path.write_bytes(
        signed.public_bytes(pem)
        + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


def mail(box: Mailbox, security: str, host: str = "127.0.0.1") -> Channel:
    fields = {"host": host, "port": box.port, "to": "kim@example.com", "user": "kim", "password": "hunter22"}
    return channel("ops", "email", {**fields, "security": security})


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_message_and_its_password_go_over_tls_alone(tls: ssl.SSLContext, security: str) -> None:
    with mail_server(tls, at_once=security == "tls") as box:
        deliver(mail(box, security), [("raised", BELL)], "m1", NOW)
    [message] = box.messages
    assert "CRITICAL deep" in message
    assert {"AUTH", "MAIL", "DATA"} <= set(box.secured)
    assert box.bare == (["EHLO", "STARTTLS"] if security == "starttls" else [])


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_an_untrusted_server_gets_nothing(tls: ssl.SSLContext, security: str) -> None:
    with mail_server(tls, at_once=security == "tls") as box:
        with pytest.raises(Undelivered, match="certificate verify failed") as raised:
            deliver(mail(box, security), [("raised", BELL)], "m1", NOW)
        assert "hunter22" not in str(raised.value)
    assert (box.messages, box.secured) == ([], [])


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_certificate_of_another_name_is_not_taken(tls: ssl.SSLContext, security: str) -> None:
    with mail_server(tls, at_once=security == "tls") as box, pytest.raises(Undelivered, match="certificate"):
        deliver(mail(box, security, "localhost"), [("raised", BELL)], "m1", NOW)
    assert box.messages == []


@pytest.mark.usefixtures("trusted")
def test_tls_from_the_start_fails_with_a_server_without_tls() -> None:
    with mail_server() as box, pytest.raises(Undelivered):
        deliver(mail(box, "tls"), [("raised", BELL)], "m1", NOW)
    assert box.messages == []
