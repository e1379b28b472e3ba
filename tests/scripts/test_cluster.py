"""`ottla cluster`, `ottla features` and `ottla api-versions` with Ottla, with Kafka, and with old brokers."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import pytest
import trio
from click.testing import CliRunner

import ottla as library
from compat_tests.support.brokers import ApacheKafka, Broker, running
from ottla.cli import main
from ottla.client.admin.cluster import Broker as Described
from ottla.client.admin.cluster import ClusterDescription, describe_cluster, knows_fenced
from ottla.client.admin.features import UpgradeType, describe_features, update_features
from ottla.client.cluster import Client, open_client
from ottla.client.config import ClientConfig
from ottla.client.errors import UnsupportedRequestError
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import RequestHeader
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.wire.schema import Request, Response
from tests.client.scripted import ScriptedBroker, listening, metadata
from tests.scripts.running import environment, ottla, ottla_on_a_terminal


@asynccontextmanager
async def scripted(
    *answers: Response, **versions: tuple[int, int] | None
) -> AsyncIterator[tuple[Client, ScriptedBroker]]:
    """Yield a client of a broker that gives these answers one after the other, and offers these versions."""
    left = list(answers)

    async def answer(header: RequestHeader, request: Request) -> Response | None:
        return metadata([broker]) if isinstance(request, MetadataRequest) else left.pop(0)

    broker = ScriptedBroker(answer)
    for name, offered in versions.items():
        if offered is None:
            del broker.versions[ApiKey[name]]
        else:
            broker.versions[ApiKey[name]] = offered
    async with (
        listening(broker),
        open_client(ClientConfig({"bootstrap.servers": broker.bootstrap, "default.api.timeout.ms": "5000"})) as client,
    ):
        yield client, broker


async def test_a_broker_without_describe_cluster_gets_a_metadata_request() -> None:
    async with scripted(DESCRIBE_CLUSTER=None) as (client, broker):
        assert not await knows_fenced(client)
        known = Described(1, broker.host, broker.port)
        assert await describe_cluster(client) == ClusterDescription("scripted", 1, [known])
        with pytest.raises(UnsupportedRequestError):
            await describe_cluster(client, fenced=True)


async def test_the_result_of_each_feature_is_used_if_the_broker_returns_it() -> None:
    refused = UpdatableFeatureResult(feature="b", error_code=95, error_message="too high")
    worked = UpdatableFeatureResult(feature="a", error_code=0, error_message=None)
    response = UpdateFeaturesResponse(error_code=0, error_message=None, results=[worked, refused])
    async with scripted(response, UPDATE_FEATURES=(0, 0)) as (client, broker):
        found = await update_features(client, {"a": 1, "b": 9}, UpgradeType.SAFE_DOWNGRADE)
        assert found["a"] is None
        assert isinstance(found["b"], KafkaError)
        assert (found["b"].code, found["b"].detail) == (ErrorCode.INVALID_UPDATE_VERSION, "too high")
        (request,) = (each for each in broker.requests if isinstance(each, UpdateFeaturesRequest))
        assert [each.allow_downgrade for each in request.feature_updates] == [True, True]
        with pytest.raises(UnsupportedRequestError):
            await update_features(client, {"a": 0}, UpgradeType.UNSAFE_DOWNGRADE)
        with pytest.raises(UnsupportedRequestError):
            await update_features(client, {"a": 1}, UpgradeType.UPGRADE, validate_only=True)


async def test_an_error_of_the_whole_update_is_that_of_each_feature() -> None:
    response = UpdateFeaturesResponse(error_code=31, error_message="no", results=[])
    async with scripted(response, UPDATE_FEATURES=(0, 2)) as (client, _):
        found = await update_features(client, {"a": 1, "b": 1}, UpgradeType.UPGRADE)
        assert [getattr(each, "code", None) for each in found.values()] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2


async def test_a_broker_without_features_has_none() -> None:
    async with scripted() as (client, _):
        assert await describe_features(client) == ({}, None)


@pytest.mark.parametrize("level", ["group.version", "=1", "group.version=x", "group.version=-1"])
def test_an_invalid_level_is_wrong_usage(level: str) -> None:
    done = CliRunner().invoke(main, ["features", "upgrade", level])
    assert (done.exit_code, "FEATURE=LEVEL" in done.output) == (2, True)


def test_the_group_of_cluster_commands_has_the_command_up() -> None:
    done = CliRunner().invoke(main, ["cluster", "--help"])
    assert done.exit_code == 0
    assert {line.split()[0] for line in done.output.splitlines() if line.startswith("  ")} >= {
        *("brokers", "id", "unregister", "up")
    }
    up = main.get_command(click.Context(main), "cluster")
    assert isinstance(up, click.Group)
    assert up.get_command(click.Context(up), "up") is not None


async def test_brokers_that_differ_are_compared_request_by_request() -> None:
    async def answer(header: RequestHeader, request: Request) -> Response | None:
        return metadata(brokers)

    brokers = [ScriptedBroker(answer, 1), ScriptedBroker(answer, 2)]
    brokers[0].versions = {ApiKey.METADATA: (0, 12), ApiKey.FETCH: (4, 17), ApiKey.PRODUCE: (0, 9)}
    brokers[1].versions = {ApiKey.METADATA: (0, 12), ApiKey.FETCH: (4, 18)}
    async with listening(*brokers):
        arguments = ["api-versions", "--diff", "-b", brokers[0].bootstrap, "-o", "tsv"]
        done = await trio.to_thread.run_sync(CliRunner().invoke, main, arguments)
    assert [line.split("\t")[:4] for line in done.stdout.splitlines()] == [
        ["1", "Produce", "0", "0-9"],
        ["2", "Produce", "0", "-"],
        ["1", "Fetch", "1", "4-17"],
        ["2", "Fetch", "1", "4-18"],
    ]


# With real brokers


@pytest.mark.slow
def test_the_id_the_brokers_and_the_versions_of_ottla_are_shown(tmp_path: Path) -> None:
    env = environment(tmp_path)
    with library.Broker() as broker:
        where = ("-b", broker.bootstrap, "-o", "json")
        (cluster,) = ottla("cluster", "id", *where, env=env).items
        assert len(cluster["cluster_id"]) == 22
        (one,) = ottla("cluster", "brokers", *where, env=env).items
        assert (one["controller"], one["rack"]) == (True, None)
        refused = ottla("cluster", "unregister", "7", "--yes", *where, env=env)
        assert (refused.code, "UNREGISTER_BROKER" in refused.stderr) == (1, True)
        assert ottla("features", "list", *where, env=env).items == []
        versions = {each["api"]: each for each in ottla("api-versions", *where, env=env).items}
        assert (versions["Produce"]["key"], versions["Produce"]["broker"]) == (0, one["broker"])
        assert ottla("api-versions", "--diff", *where, env=env).items == []


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with running(ApacheKafka) as broker:
        yield broker


@pytest.mark.slow
def test_kafkas_fenced_brokers_are_listed_and_an_unknown_one_is_not_unregistered(kafka: Broker, tmp_path: Path) -> None:
    env, where = environment(tmp_path), ("-b", kafka.bootstrap, "-o", "json")
    (one,) = ottla("cluster", "brokers", *where, env=env).items
    assert (one["broker"], one["fenced"], one["controller"]) == (1, False, True)
    (item,) = ottla("cluster", "unregister", "7", "--yes", *where, env=env).items
    assert (item["unregistered"], item["error"]) == (False, "BROKER_ID_NOT_REGISTERED")
    unasked = ottla("cluster", "unregister", "7", *where, env=env)
    assert (unasked.code, "--yes" in unasked.stderr) == (2, True)
    asked = ottla_on_a_terminal("cluster", "unregister", "7", "-b", kafka.bootstrap, typed=[("?", "n\n")], env=env)
    assert asked.code == 1


@pytest.mark.slow
def test_kafkas_features_are_listed_and_changed(kafka: Broker, tmp_path: Path) -> None:
    env, where = environment(tmp_path), ("-b", kafka.bootstrap, "-o", "json")

    def level(feature: str) -> int:
        found: dict[str, int] = {
            each["feature"]: each["level"] for each in ottla("features", "list", *where, env=env).items
        }
        return found[feature]

    assert level("streams.version") == 1
    dry = ottla("features", "downgrade", "streams.version=0", "--dry-run", *where, env=env)
    assert (dry.document["dry_run"], dry.items[0]["from"], dry.items[0]["to"]) == (True, 1, 0)
    assert (dry.items[0]["changed"], level("streams.version")) == (False, 1)
    done = ottla("features", "downgrade", "streams.version=0", *where, env=env)
    assert (done.code, done.items[0]["changed"]) == (0, True), done
    failed = ottla("features", "upgrade", "streams.version=9", *where, env=env)
    assert (failed.code, failed.items[0]["changed"]) == (1, False)
    unsafe = ottla("features", "downgrade", "--unsafe", "share.version=0", *where, env=env)
    assert (unsafe.code, "--yes" in unsafe.stderr) == (2, True)
