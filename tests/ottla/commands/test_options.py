"""The parsers of options."""

from pathlib import Path

import pytest

from ottla.commands.options import address, defaults_without_file, settings


@pytest.mark.parametrize(
    ("listen", "port", "expected"),
    [
        (None, None, (None, None)),
        (None, 0, (None, 0)),
        ("example.com", None, ("example.com", None)),
        ("127.0.0.1:9093", None, ("127.0.0.1", 9093)),
        ("127.0.0.1", 9093, ("127.0.0.1", 9093)),
        ("[::1]", 9093, ("::1", 9093)),
        ("[::1]:9093", None, ("::1", 9093)),
        ("0.0.0.0", None, ("", None)),
        ("[::]:9093", None, ("", 9093)),
    ],
)
def test_an_address_is_a_host_a_port_or_both(
    listen: str | None, port: int | None, expected: tuple[str | None, int | None]
) -> None:
    assert address(listen, port) == expected


@pytest.mark.parametrize(
    ("listen", "port", "line"),
    [
        ("PLAINTEXT://:9092", None, "--listen takes HOST or HOST:PORT, not 'PLAINTEXT://:9092'"),
        ("::1", None, "--listen takes HOST or HOST:PORT, not '::1'"),
        ("", None, "--listen takes HOST or HOST:PORT, not ''"),
        ("a:65536", None, "--listen takes HOST or HOST:PORT, not 'a:65536'"),
        ("a:1", 1, "--listen and --port both name a port"),
    ],
)
def test_a_malformed_address_is_refused_in_one_line(
    listen: str, port: int | None, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        address(listen, port)
    assert (ended.value.code, capsys.readouterr().err) == (1, f"ottla: {line}\n")


def test_data_and_zookeeper_come_before_overrides() -> None:
    overrides = ["log.dirs=a", "zookeeper.connect=b", "num.partitions=1", "num.partitions=2"]
    assert settings(overrides, Path("c"), "d") == {"log.dirs": "c", "zookeeper.connect": "d", "num.partitions": "2"}


def test_without_a_file_the_data_is_in_the_users_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = str(tmp_path / ".local/share/ottla")
    for environ, folder in {"": home, "relative": home, "/there": "/there/ottla"}.items():
        assert defaults_without_file({"XDG_DATA_HOME": environ})["log.dir"] == folder
    assert defaults_without_file({}) == {"listeners": "PLAINTEXT://localhost:9092", "log.dir": home}
