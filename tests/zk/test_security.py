"""The settings of security towards ZooKeeper, and refused settings."""

import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.broker.config.broker_config import BrokerConfig, system_properties
from ottla.wire.config_def import ConfigError
from ottla.zk.config import ZOOKEEPER_CONFIG
from ottla.zk.security import Security, openssl_name, read_security

DIGEST = 'Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="secret"; };'
TLS = {"zookeeper.ssl.client.enable": "true"}


def security(texts: Mapping[str, str], properties: Mapping[str, str] | None = None) -> Security:
    return read_security(ZOOKEEPER_CONFIG.parse_all(texts), properties or {})


def tls(**texts: str) -> ssl.SSLContext:
    found = security({**TLS, **{f"zookeeper.ssl.{name.replace('_', '.')}": text for name, text in texts.items()}}).tls
    assert found is not None
    return found


@pytest.fixture
def login(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "jaas.conf").write_text(DIGEST)
    return {"java.security.auth.login.config": str(tmp_path / "jaas.conf")}


def test_without_any_key_there_is_no_security() -> None:
    assert security({}) == (False, None, None)


def test_the_options_of_kafkas_start_script_are_read() -> None:
    options = "-Xmx1G -Djava.security.auth.login.config=/etc/jaas=1.conf -Dflag -Dzookeeper.sasl.client=false  -Dflag=2"
    assert system_properties({"KAFKA_OPTS": options}) == {
        "java.security.auth.login.config": "/etc/jaas=1.conf",
        "zookeeper.sasl.client": "false",
        "flag": "2",
    }
    assert system_properties({}) == {}


def test_a_section_of_the_jaas_file_holds_the_brokers_credentials(login: dict[str, str]) -> None:
    assert security({}, login).credentials == ("kafka", "secret")
    assert security({"zookeeper.set.acl": "true"}, login) == (True, ("kafka", "secret"), None)
    assert security({}, {**login, "zookeeper.sasl.clientconfig": "Other"}).credentials is None
    as_url = {"java.security.auth.login.config": f"=file:{login['java.security.auth.login.config']}"}
    assert security({}, as_url).credentials == ("kafka", "secret")


@pytest.mark.parametrize("module", ["plain.PlainLoginModule", "scram.ScramLoginModule"])
def test_kafkas_own_login_modules_hold_credentials_too(login: dict[str, str], module: str, tmp_path: Path) -> None:
    text = DIGEST.replace("zookeeper.server.auth.DigestLoginModule", f"kafka.common.security.{module}")
    (tmp_path / "jaas.conf").write_text(text)
    assert security({}, login).credentials == ("kafka", "secret")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DIGEST.replace("}", ""), "jaas.conf: line 1: '}' is missing|jaas.conf: line 1: the flag"),
        (DIGEST.replace("password", "passphrase"), "DigestLoginModule has no password"),
        ("Client { com.sun.security.auth.module.Krb5LoginModule required; };", "does not support .*Krb5LoginModule"),
    ],
)
def test_an_unusable_jaas_file_is_refused(login: dict[str, str], text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "jaas.conf").write_text(text)
    with pytest.raises(ConfigError, match=reason):
        security({}, login)


def test_a_jaas_file_that_is_missing_or_not_utf8_is_refused(login: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "jaas.conf").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"jaas\.conf: not UTF-8"):
        security({}, login)
    (tmp_path / "jaas.conf").unlink()
    with pytest.raises(ConfigError, match=r"jaas\.conf: No such file"):
        security({}, login)


def test_sasl_that_is_configured_and_disabled_is_refused(login: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.sasl\.client is set to false"):
        security({}, {**login, "zookeeper.sasl.client": "false"})
    assert security({}, {**login, "zookeeper.sasl.client": "TRUE"}).credentials == ("kafka", "secret")


@pytest.mark.parametrize(
    "missing",
    [None, "zookeeper.ssl.client.enable", "zookeeper.clientCnxnSocket", "zookeeper.ssl.keystore.location"],
)
def test_acls_require_a_broker_that_authenticates(missing: str | None, tmp_path: Path) -> None:
    """A certificate counts only with all three of the keys that Kafka checks."""
    texts = {**TLS, "zookeeper.clientCnxnSocket": "Netty", "zookeeper.ssl.keystore.location": str(tmp_path / "k.pem")}
    reason = r"zookeeper\.ssl\.keystore\.location: .*k\.pem: No such file"
    if missing is not None:
        del texts[missing]
        reason = r"zookeeper\.set\.acl is true, but"
    with pytest.raises(ConfigError, match=reason):
        security({"zookeeper.set.acl": "true", **texts})


def test_tls_is_configured_by_the_keys() -> None:
    plain = tls()
    assert (plain.minimum_version, plain.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    assert plain.check_hostname
    assert plain.verify_mode is ssl.CERT_REQUIRED
    assert tls(protocol="TLSv1.3").minimum_version is ssl.TLSVersion.TLSv1_3
    both = tls(protocol="SSLv3", enabled_protocols="TLSv1.3,TLSv1.2")
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    for text in ("", "none"):
        assert not tls(endpoint_identification_algorithm=text).check_hostname
        assert tls(endpoint_identification_algorithm=text).verify_mode is ssl.CERT_REQUIRED
    assert tls(endpoint_identification_algorithm="https").check_hostname


def test_cipher_suites_have_javas_names() -> None:
    suites = ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256")
    names = {
        each["name"] for each in tls(cipher_suites=",".join(suites)).get_ciphers() if each["protocol"] == "TLSv1.2"
    }
    assert names == {"ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"}
    assert openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA") == "AES128-SHA"
    assert openssl_name("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256") == "DHE-RSA-AES256-SHA256"


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"protocol": "SSLv3"}, "Ottla supports TLSv1.2 and TLSv1.3, not SSLv3"),
        ({"enabled_protocols": "TLSv1.2,TLSv1"}, "TLSv1.3, not TLSv1"),
        ({"cipher_suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_OF_MINE"}, "OpenSSL has no TLS_OF_MINE"),
        ({"cipher_suites": "TLS_OF_MINE"}, "OpenSSL has no TLS_OF_MINE"),
        ({"cipher_suites": "TLS_AES_128_GCM_SHA256", "protocol": "TLSv1.3"}, "TLSv1.3 cannot be chosen"),
        ({"keystore_location": "/k.jks"}, "/k.jks is of type jks"),
        ({"truststore_location": "/t.p12"}, "/t.p12 is of type p12"),
        ({"truststore_location": "/t.pem", "truststore_type": "JKS"}, "/t.pem is of type JKS"),
        ({"truststore_location": "/t"}, "/t is of type unknown"),
        ({"truststore_location": "/no/such.pem"}, "/no/such.pem: No such file"),
    ],
)
def test_impossible_tls_is_refused(texts: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        tls(**texts)


def test_a_file_without_a_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("nothing\n")
    for store in ("keystore", "truststore"):
        where = {f"{store}_location": str(tmp_path / "empty.txt"), f"{store}_type": "pem"}
        with pytest.raises(ConfigError, match=rf"zookeeper\.ssl\.{store}\.location: .*empty\.txt: \S+"):
            tls(**where)


def test_system_properties_of_zookeepers_client_count_where_the_key_is_not_set(tmp_path: Path) -> None:
    options = (
        "-Dzookeeper.client.secure=true -Dzookeeper.ssl.trustStore.location=/a.pem -Dzookeeper.ssl.protocol=TLSv1.3"
    )
    environ = {"KAFKA_OPTS": options + " -Dzookeeper.ssl.hostnameVerification=false"}
    config, _ = BrokerConfig.load(None, {"zookeeper.ssl.protocol": "TLSv1.2"}, environ)
    assert config.values["zookeeper.ssl.client.enable"] is True
    assert config.values["zookeeper.ssl.truststore.location"] == "/a.pem"
    assert config.values["zookeeper.ssl.protocol"] == "TLSv1.2"
    assert config.values["zookeeper.ssl.endpoint.identification.algorithm"] == ""
    with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.ocsp\.enable cannot be honoured"):
        BrokerConfig.load(None, {}, {"KAFKA_OPTS": "-Dzookeeper.ssl.ocsp=true"})
