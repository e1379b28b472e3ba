"""A broker's credentials, TLS and ACLs towards ZooKeeper.

Owns the rules between the configuration keys, the JAAS file and the certificate files, and Java's names of ciphers.
Must not know a session. Counterparts: KafkaZkClient.createZkClient, JaasUtils.isZkSaslEnabled, ZooKeeper's X509Util.
"""

import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.wire.config_def import ConfigError
from ottla.wire.jaas import JaasError, LoginModule, parse_jaas

_LOGIN_FILE: Final = "java.security.auth.login.config"
_SASL_CLIENT: Final = "zookeeper.sasl.client"
_SECTION: Final = "zookeeper.sasl.clientconfig"
# The login modules whose username and password ZooKeeper's client uses for DIGEST-MD5.
_PASSWORD_MODULES: Final = frozenset(
    {
        "org.apache.zookeeper.server.auth.DigestLoginModule",
        "org.apache.kafka.common.security.plain.PlainLoginModule",
        "org.apache.kafka.common.security.scram.ScramLoginModule",
    }
)
_TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class Security(NamedTuple):
    """The arguments of an `EnsembleStore` that concern security."""

    set_acl: bool
    credentials: tuple[str, str] | None
    tls: ssl.SSLContext | None


def read_security(values: Mapping[str, Any], properties: Mapping[str, str]) -> Security:
    """Return the security that the broker's keys and Java's system properties configure, from the files they name."""
    credentials = _credentials(properties)
    has_tls = values["zookeeper.ssl.client.enable"]
    has_certificate = has_tls and values["zookeeper.clientCnxnSocket"] and values["zookeeper.ssl.keystore.location"]
    if values["zookeeper.set.acl"] and credentials is None and not has_certificate:
        raise ConfigError(
            "zookeeper.set.acl is true, but ZooKeeper client TLS configuration identifying at least "
            "zookeeper.ssl.client.enable, zookeeper.clientCnxnSocket, and zookeeper.ssl.keystore.location was not "
            f"present, and no JAAS file ({_LOGIN_FILE} in KAFKA_OPTS) has a section {_section(properties)}"
        )
    return Security(values["zookeeper.set.acl"], credentials, _tls_context(values) if has_tls else None)


# SASL


def _section(properties: Mapping[str, str]) -> str:
    return properties.get(_SECTION, "Client")


def _credentials(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """Return username and password of the JAAS section; None without a JAAS file or section."""
    if _LOGIN_FILE not in properties:
        return None
    # The JDK accepts a URL, and a second equals sign.
    path = Path(properties[_LOGIN_FILE].removeprefix("=").removeprefix("file:"))
    try:
        sections = parse_jaas(path.read_text(), properties)
    except OSError as error:
        raise ConfigError(f"{_LOGIN_FILE}: {path}: {error.strerror}") from error
    except ValueError as error:
        reason = error if isinstance(error, JaasError) else "not UTF-8"
        raise ConfigError(f"{_LOGIN_FILE}: {path}: {reason}") from error
    section = _section(properties)
    if not (modules := sections.get(section)):
        return None
    if properties.get(_SASL_CLIENT, "true").lower() != "true":
        raise ConfigError(
            f"JAAS configuration is present ({section} in {path}), but system property {_SASL_CLIENT} is set to false, "
            "which disables SASL in the ZooKeeper client"
        )
    return _user_of(modules, f"{section} in {path}")


def _user_of(modules: Sequence[LoginModule], where: str) -> tuple[str, str]:
    for class_name, options in modules:
        if class_name in _PASSWORD_MODULES:
            try:
                return options["username"], options["password"]
            except KeyError as error:
                raise ConfigError(f"{where}: {class_name} has no {error.args[0]}") from None
    names = ", ".join(each.class_name for each in modules)
    raise ConfigError(f"{where}: Ottla authenticates to ZooKeeper by DIGEST-MD5 only, and does not support {names}")


# TLS


def _tls_context(values: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = values["zookeeper.ssl.endpoint.identification.algorithm"].upper() == "HTTPS"
    _choose_protocols(context, values)
    _choose_ciphers(context, values["zookeeper.ssl.cipher.suites"] or ())
    trusted = _pem_file(values, "truststore")
    own = _pem_file(values, "keystore")
    if trusted is None:
        context.load_default_certs()
    else:
        _load("truststore", trusted, lambda: context.load_verify_locations(trusted))
    if own is not None:
        password = values["zookeeper.ssl.keystore.password"]
        # An empty password, because without any OpenSSL would ask on the terminal for an encrypted key's.
        text = password.value if password is not None else ""
        _load("keystore", own, lambda: context.load_cert_chain(own, password=text))
    return context


def _pem_file(values: Mapping[str, Any], store: str) -> str | None:
    path: str | None = values[f"zookeeper.ssl.{store}.location"]
    if not path:
        return None
    kind = values[f"zookeeper.ssl.{store}.type"] or Path(path).suffix.removeprefix(".") or "unknown"
    if kind.upper() != "PEM":
        raise ConfigError(
            f"zookeeper.ssl.{store}.location cannot be honoured: Ottla reads PEM files, and {path} is of type {kind}; "
            f"convert it, or set zookeeper.ssl.{store}.type=PEM if it is one"
        )
    return path


def _load(store: str, path: str, load: Any) -> None:
    try:
        load()
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(
            f"zookeeper.ssl.{store}.location: {path}: {reason or 'holds no usable key or certificate'}"
        ) from error


def _choose_protocols(context: ssl.SSLContext, values: Mapping[str, Any]) -> None:
    key = "zookeeper.ssl.enabled.protocols" if values["zookeeper.ssl.enabled.protocols"] else "zookeeper.ssl.protocol"
    names = values[key] if isinstance(values[key], tuple) else (values[key],)
    for name in names:
        if name not in _TLS_VERSIONS:
            raise ConfigError(f"{key} cannot be honoured: Ottla supports {' and '.join(_TLS_VERSIONS)}, not {name}")
    versions = [_TLS_VERSIONS[name] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _choose_ciphers(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    if not suites:
        return
    key = "zookeeper.ssl.cipher.suites"
    if context.maximum_version == ssl.TLSVersion.TLSv1_3:
        raise ConfigError(f"{key} cannot be honoured: the cipher suites of TLSv1.3 cannot be chosen")
    names = [openssl_name(each) for each in suites]
    try:
        context.set_ciphers(":".join(names))
        known = {each["name"] for each in context.get_ciphers()}
    except ssl.SSLError:
        known = set()
    for suite, name in zip(suites, names, strict=True):
        if name not in known:
            raise ConfigError(f"{key} cannot be honoured: OpenSSL has no {suite}")


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite of TLSv1.2, which Java calls by its registered name."""
    exchange, _, cipher = re.sub(r"^(TLS|SSL)_", "", suite).partition("_WITH_")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "").replace("POLY1305_SHA256", "POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")
