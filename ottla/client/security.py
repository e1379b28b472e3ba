"""A client's security: the TLS context and the SASL mechanism of its properties.

Owns the reading of stores and of `sasl.jaas.config`. Must not know a connection.
Counterparts in Kafka: DefaultSslEngineFactory, JaasContext.
"""

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ottla.client.config import MECHANISMS, ClientConfig
from ottla.client.sasl import Mechanism, Plain, Scram
from ottla.wire.config_def import ConfigError, Password
from ottla.wire.jaas import JaasError, parse_login_module

_TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MAGIC: Final = {b"\xfe\xed": "JKS", b"\x30": "PKCS12"}


class Security(NamedTuple):
    """The TLS context and the SASL mechanism of each connection; None: without TLS or SASL."""

    tls: ssl.SSLContext | None
    mechanism: Callable[[], Mechanism] | None
    """Called for each authentication."""


def read_security(config: ClientConfig) -> Security:
    """Return the security of the properties, with the stores read. ConfigError names the invalid key."""
    tls = _tls_context(config) if config.uses_tls else None
    return Security(tls, _mechanism(config) if config.uses_sasl else None)


def _tls_context(config: ClientConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(config["ssl.endpoint.identification.algorithm"])
    versions = [_TLS_VERSIONS[each] for each in config["ssl.enabled.protocols"]]
    if versions:
        context.minimum_version, context.maximum_version = min(versions), max(versions)
    if config["ssl.cipher.suites"]:
        with _refusing("ssl.cipher.suites"):
            context.set_ciphers(":".join(config["ssl.cipher.suites"]))
    _trust(context, config)
    _identify(context, config)
    return context


def _mechanism(config: ClientConfig) -> Callable[[], Mechanism]:
    name: str = config["sasl.mechanism"]
    if name not in MECHANISMS:
        raise ConfigError(f"sasl.mechanism={name} is not supported: use {', '.join(MECHANISMS)}")
    username, password, is_token = _credentials(config, name)
    if name == "PLAIN":
        return lambda: Plain(username, password)
    return lambda: Scram(name, username, password, is_token=is_token)


def _credentials(config: ClientConfig, mechanism: str) -> tuple[str, str, bool]:
    jaas: Password | None = config["sasl.jaas.config"]
    if jaas is None:
        raise ConfigError(f"sasl.mechanism={mechanism} needs sasl.jaas.config, with a user and a password")
    try:
        module = parse_login_module(jaas.value)
    except JaasError as error:
        raise ConfigError(f"sasl.jaas.config: {error}") from None
    expected = _PLAIN_MODULE if mechanism == "PLAIN" else _SCRAM_MODULE
    if module.class_name != expected:
        raise ConfigError(
            f"sasl.jaas.config names {module.class_name}, but sasl.mechanism={mechanism} needs {expected}"
        )
    missing = next((each for each in ("username", "password") if each not in module.options), None)
    if missing:
        raise ConfigError(f"sasl.jaas.config has no {missing}")
    is_token = module.options.get("tokenauth", "false").lower() == "true"
    return module.options["username"], module.options["password"], is_token


# Stores


def _trust(context: ssl.SSLContext, config: ClientConfig) -> None:
    text: Password | None = config["ssl.truststore.certificates"]
    location: str | None = config["ssl.truststore.location"]
    if text is not None:
        with _refusing("ssl.truststore.certificates"):
            context.load_verify_locations(cadata=text.value)
    elif location:
        path = _pem("ssl.truststore.location", location)
        with _refusing("ssl.truststore.location", path):
            context.load_verify_locations(path)
    else:
        context.load_default_certs()


def _identify(context: ssl.SSLContext, config: ClientConfig) -> None:
    key: Password | None = config["ssl.keystore.key"]
    chain: Password | None = config["ssl.keystore.certificate.chain"]
    location: str | None = config["ssl.keystore.location"]
    secret: Password | None = config["ssl.key.password"]
    # With None, OpenSSL would ask for a password on the terminal.
    password = "" if secret is None else secret.value
    if key is not None or chain is not None:
        if key is None or chain is None:
            raise ConfigError("ssl.keystore.key and ssl.keystore.certificate.chain need each other")
        with _refusing("ssl.keystore.key"), _as_file(f"{key.value}\n{chain.value}\n") as path:
            context.load_cert_chain(path, password=password)
    elif location:
        path = _pem("ssl.keystore.location", location)
        with _refusing("ssl.keystore.location", path):
            context.load_cert_chain(path, password=password)


def _pem(key: str, path: str) -> str:
    """Return the path of a store. ConfigError for a JKS or PKCS12 store, which is recognized by its first bytes."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(2)
    except OSError as error:
        raise ConfigError(f"{key}: {path}: {error.strerror}") from error
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    if kind:
        raise ConfigError(
            f"{key}: {path} is a {kind} store, but Ottla's client reads PEM. Convert it, for example with "
            "`keytool -importkeystore ... -deststoretype PKCS12` and `openssl pkcs12 -in ... -out ...`"
        )
    return path


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Yield a path that holds the text, because OpenSSL reads keys from files only. The disk stays untouched."""
    descriptor = os.memfd_create("pem")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@contextmanager
def _refusing(key: str, path: str | None = None) -> Iterator[None]:
    """Turn an error of OpenSSL or of a file into a ConfigError that names the key."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{key}: {f'{path}: ' if path else ''}{reason}") from error
