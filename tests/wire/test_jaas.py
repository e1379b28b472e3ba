"""JAAS files are read as the JDK reads them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.jaas import JaasError, LoginModule, parse_jaas

USUAL = """
// The broker towards its clients,
KafkaServer {
   org.apache.kafka.common.security.plain.PlainLoginModule required
   username="admin"
   password="admin-secret"
   user_admin="admin-secret";
};
/* and
   towards ZooKeeper */
Client {
   org.apache.zookeeper.server.auth.DigestLoginModule REQUIRED username=kafka password="of; \\"brokers\\" // {}";
   com.sun.security.auth.module.Krb5LoginModule optional;
};
Empty {};
"""


def test_a_file_as_kafka_users_write_it() -> None:
    sections = parse_jaas(USUAL, {})
    assert list(sections) == ["KafkaServer", "Client", "Empty"]
    assert sections["Client"] == [
        LoginModule(
            "org.apache.zookeeper.server.auth.DigestLoginModule",
            {"username": "kafka", "password": 'of; "brokers" // {}'},
        ),
        LoginModule("com.sun.security.auth.module.Krb5LoginModule", {}),
    ]
    assert sections["KafkaServer"][0].options["user_admin"] == "admin-secret"
    assert sections["Empty"] == []


def test_values_name_system_properties() -> None:
    text = 'Client { a.B required password="${secret}!" ; };'
    assert parse_jaas(text, {"secret": "x"})["Client"][0].options == {"password": "x!"}
    with pytest.raises(JaasError, match="line 1: there is no system property secret"):
        parse_jaas(text, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Client {\n a.B required\n user=x\n}", "line 4: ';' is missing|line 3: ';' is missing"),
        ("Client { a.B required; }", "';' is missing"),
        ("Client { a.B required;", "'}' is missing"),
        ("Client", "'{' is missing"),
        ("{ };", "the name of a section is missing"),
        ("Client { a.B; };", "the flag of a module is missing"),
        ("Client { a.B always; };", "the flag of a module is none of optional, required"),
        ("Client { a.B required user; };", "'=' is missing"),
        ("Client { a.B required user=; };", "a value is missing"),
        ('Client {\n a.B required user="x\n"; };', "line 2: '\"' is out of place"),
        ("Client { a.B required; };\n/ Client", "line 2: '/' is out of place"),
        ("Client {}; Client {};", "a second section Client"),
    ],
)
def test_an_error_names_its_line(text: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason):
        parse_jaas(text, {})


@given(
    st.dictionaries(
        st.from_regex(r"[a-zA-Z_.]{1,9}", fullmatch=True), st.text(st.characters(exclude_characters="\n$"), max_size=9)
    )
)
def test_every_value_that_is_quoted_is_read_back(options: dict[str, str]) -> None:
    quoted = {name: value.replace("\\", r"\\").replace('"', r"\"") for name, value in options.items()}
    written = " ".join(f'{name}="{value}"' for name, value in quoted.items())
    assert parse_jaas(f"Client {{ a.B required {written}; }};", {}) == {"Client": [LoginModule("a.B", options)]}


@given(st.text('Clien{};="/*\\ \nab.required${}', max_size=60))
def test_any_text_is_parsed_or_raises_jaas_error(text: str) -> None:
    with suppress(JaasError):
        parse_jaas(text, {})
