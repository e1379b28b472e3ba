"""Connect's REST interface, over jobs in memory."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.checkpoint import CheckpointError
from ottla.pipeline.server import herder, plugins
from ottla.pipeline.server.answers import Answer
from ottla.pipeline.server.herder import Changes, Herder
from ottla.pipeline.server.rest import Rest, Server
from ottla.pipeline.server.state import Record, Status, status_record
from ottla.pipeline.server.topics import TopicError
from ottla.pipeline.settings import JobError

from .memory import Memory

CONFIG_PATH = "/connectors/orders/config"
CONFIG = {"source.type": "topic", "sink.type": "parquet"}


class Api:
    """The interface, and what it works on."""

    def __init__(self, folder: Path) -> None:
        self.memory = Memory()
        self.is_rebalancing = False
        self.health = "healthy"
        self.moved: list[tuple[str, Changes | None]] = []
        self.refusal: Exception | None = None
        jobs = Herder(
            self.memory.state,
            lambda records: self.memory.write(records),
            validate,
            self.move,
            lambda name: folder / name,
            lambda: self.is_rebalancing,
        )
        self.rest = Rest(jobs, Server("the-cluster", lambda: self.health, [("MaskField$Value", "transformation")]))

    def __call__(self, method: str, path: str, body: Any = None) -> Answer:
        answer = self.rest.answer(method, path, body)
        json.dumps(answer.body)
        return answer

    def move(self, config: dict[str, str], checkpoint: Path, changes: Changes | None) -> None:
        if self.refusal:
            raise self.refusal
        assert config["name"] == checkpoint.name
        self.moved.append((checkpoint.name, changes))

    def body(self, method: str, path: str, body: Any = None) -> Any:
        answer = self(method, path, body)
        assert answer.status < 300
        return answer.body

    def error(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        answer = self(method, path, body)
        assert answer.body["error_code"] == answer.status
        return answer.status, answer.body["message"]

    def target(self, name: str) -> str:
        job = self.memory.state.job(name)
        assert job is not None
        return job.target

    def say(self, name: str, **status: Any) -> None:
        self.memory.write([status_record(name, Status(**{"worker_id": "host:8083", "generation": 0, **status}))])


def validate(config: dict[str, str], name: str) -> list[tuple[str, str]]:
    return [(key, f"{name}: {key} is unknown") for key in config if key not in {*CONFIG, "name", "mark"}]


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path)


@pytest.fixture
def orders(api: Api) -> Api:
    """An api with one job."""
    api.body("POST", "/connectors", {"name": "orders", "config": CONFIG})
    return api


def test_the_root_tells_version_and_cluster(api: Api) -> None:
    told = api.body("GET", "/")
    assert told == {"version": plugins.version(), "commit": "unknown", "kafka_cluster_id": "the-cluster"}


@pytest.mark.parametrize(("health", "status"), [("healthy", 200), ("starting", 503), ("unhealthy", 500)])
def test_health_is_told_by_the_status_too(api: Api, health: str, status: int) -> None:
    api.health = health
    answer = api("GET", "/health")
    assert (answer.status, answer.body["status"]) == (status, health)


def test_a_new_job_is_answered_with_what_it_is_and_where(api: Api) -> None:
    answer = api("POST", "/connectors", {"name": " a b/c ", "config": {**CONFIG, "mark": 7}})
    config = {**CONFIG, "mark": "7", "name": "a b/c"}
    tasks = [{"connector": "a b/c", "task": 0}]
    assert answer.status == 201
    assert answer.headers == {"Location": "/connectors/a%20b%2Fc"}
    assert answer.body == {"name": "a b/c", "config": config, "tasks": tasks, "type": "sink"}
    assert api.body("GET", "/connectors") == ["a b/c"]
    assert api.body("GET", "/connectors/a%20b%2Fc") == answer.body
    assert api.body("GET", "/connectors/a%20b%2Fc/config/") == config


def test_a_job_that_does_not_read_a_topic_is_a_source(api: Api) -> None:
    assert api.body("PUT", "/connectors/x/config", {**CONFIG, "source.type": "files"})["type"] == "source"


def test_a_job_is_made_once(orders: Api) -> None:
    created = {"name": "orders", "config": CONFIG}
    assert orders.error("POST", "/connectors", created) == (409, "Connector orders already exists")


@pytest.mark.parametrize(("state", "target"), [("running", "STARTED"), ("PAUSED", "PAUSED"), ("STOPPED", "STOPPED")])
def test_a_job_may_begin_paused_or_stopped(api: Api, state: str, target: str) -> None:
    created = api.body("POST", "/connectors", {"name": "a", "config": CONFIG, "initial_state": state})
    assert api.target("a") == target
    assert api.memory.written[0][0] == "target-state-a"
    assert len(created["tasks"]) == (target != "STOPPED")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "the body is to be an object"),
        ({"name": "a"}, "the config is to be an object"),
        ({"name": "a", "config": [1]}, "the config is to be an object"),
        ({"name": "a", "config": {"x": {}}}, "the value of x is to be a text"),
        ({"name": "a", "config": {"x": None}}, "the value of x is to be a text"),
        ({"name": "a", "config": {"name": "b"}}, "(b) doesn't match connector name in the URL (a)"),
        ({"name": "a", "config": CONFIG, "initial_state": "ASLEEP"}, "initial_state is to be one of"),
        ({"config": CONFIG}, "non-empty"),
        ({"name": "a\nb", "config": CONFIG}, "control characters"),
        ({"name": "a\ud800", "config": CONFIG}, "control characters"),
        ({"name": "a", "config": {**CONFIG, "connector.class": "FileStreamSink"}}, "FileStreamSink"),
        ({"name": "a", "config": {**CONFIG, "colour": "red"}}, "a: colour is unknown"),
    ],
)
def test_what_is_wrong_with_a_new_job_is_said_and_it_is_not_made(api: Api, body: Any, said: str) -> None:
    status, message = api.error("POST", "/connectors", body)
    assert status == 400
    assert said in message
    assert api.memory.written == []


def test_all_that_is_wrong_with_a_config_is_said_as_connect_says_it(orders: Api) -> None:
    status, message = orders.error("PUT", "/connectors/orders/config", {"colour": "red", "size": "2"})
    assert status == 400
    assert message.splitlines() == [
        "Connector configuration is invalid and contains the following 2 error(s):",
        "orders: colour is unknown",
        "orders: size is unknown",
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`",
    ]


def test_a_config_is_put_with_201_for_a_new_job_and_200_for_an_old_one(api: Api) -> None:
    answer = api("PUT", "/connectors/orders/config", CONFIG)
    assert (answer.status, answer.headers["Location"]) == (201, "/connectors/orders")
    answer = api("PUT", "/connectors/orders/config", {**CONFIG, "mark": "2"})
    assert (answer.status, answer.body["config"]) == (200, {**CONFIG, "mark": "2", "name": "orders"})
    assert api.error("PUT", "/connectors/orders/config", {"name": "bills"})[0] == 400


def test_a_config_that_is_the_same_does_not_stop_the_job(orders: Api) -> None:
    before = orders.memory.state.job("orders")
    assert orders("PUT", "/connectors/orders/config", CONFIG).status == 200
    assert orders.memory.state.job("orders") == before


def test_a_patch_changes_some_keys_and_takes_away_those_that_are_null(orders: Api) -> None:
    orders.body("PATCH", "/connectors/orders/config", {"mark": "1"})
    assert orders.body("GET", "/connectors/orders/config") == {**CONFIG, "mark": "1", "name": "orders"}
    answer = orders("PATCH", "/connectors/orders/config", {"mark": None, "sink.type": "delta"})
    assert (answer.status, answer.body["config"]) == (200, {**CONFIG, "sink.type": "delta", "name": "orders"})


def test_pausing_resuming_and_stopping_write_down_what_is_wanted(orders: Api) -> None:
    for verb, status, target in [
        ("pause", 202, "PAUSED"),
        ("resume", 202, "STARTED"),
        ("stop", 204, "STOPPED"),
        ("stop", 204, "STOPPED"),
    ]:
        assert orders("PUT", f"/connectors/orders/{verb}") == Answer(status)
        assert orders.target("orders") == target
    assert orders.body("GET", "/connectors/orders")["tasks"] == []
    assert orders.body("GET", "/connectors/orders/tasks") == []


def test_a_deleted_job_is_gone(orders: Api) -> None:
    assert orders("DELETE", "/connectors/orders") == Answer(204)
    assert orders.body("GET", "/connectors") == []
    assert orders.error("GET", "/connectors/orders") == (404, "Connector orders not found")
    assert orders.error("DELETE", "/connectors/orders") == (404, "Connector orders not found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/config"),
        ("PATCH", "/config"),
        ("GET", "/status"),
        ("PUT", "/pause"),
        ("PUT", "/resume"),
        ("PUT", "/stop"),
        ("POST", "/restart"),
        ("GET", "/tasks"),
        ("GET", "/tasks-config"),
        ("GET", "/tasks/0/status"),
        ("POST", "/tasks/0/restart"),
        ("GET", "/offsets"),
        ("DELETE", "/offsets"),
        ("DELETE", ""),
    ],
)
def test_a_job_that_is_not_there_is_not_found(api: Api, method: str, path: str) -> None:
    status, message = api.error(method, f"/connectors/gone{path}", {} if method == "PATCH" else None)
    assert status == 404
    assert "gone" in message


def test_a_status_is_told_of_the_job_and_of_its_one_task(orders: Api) -> None:
    assert orders.error("GET", "/connectors/orders/status") == (404, "No status found for connector orders")
    orders.say("orders", state="RUNNING")
    connector = {"state": "RUNNING", "worker_id": "host:8083"}
    told = {"name": "orders", "connector": connector, "tasks": [{"id": 0, **connector}], "type": "sink"}
    assert orders.body("GET", "/connectors/orders/status") == told
    assert orders.body("GET", "/connectors/orders/tasks/0/status") == {"id": 0, **connector}
    assert orders.error("GET", "/connectors/orders/tasks/1/status") == (404, "No status found for task orders-1")


def test_a_failed_job_has_a_trace_and_a_stopped_one_no_tasks(orders: Api) -> None:
    orders.say("orders", state="FAILED", trace="a line")
    told = orders.body("GET", "/connectors/orders/status")
    assert [part["trace"] for part in (told["connector"], *told["tasks"])] == ["a line", "a line"]
    orders.say("orders", state="STOPPED")
    assert orders.body("GET", "/connectors/orders/status")["tasks"] == []


def test_tasks_are_told_with_the_config_of_the_job(orders: Api) -> None:
    config = orders.body("GET", "/connectors/orders/config")
    told = [{"id": {"connector": "orders", "task": 0}, "config": config}]
    assert orders.body("GET", "/connectors/orders/tasks") == told
    assert orders.body("GET", "/connectors/orders/tasks-config") == {"orders-0": config}


def test_a_restart_is_a_new_version_of_the_job(orders: Api) -> None:
    orders.say("orders", state="RUNNING")
    assert orders("POST", "/connectors/orders/restart") == Answer(204)
    answer = orders("POST", "/connectors/orders/restart?includeTasks=true")
    assert answer.status == 202
    assert [part["state"] for part in (answer.body["connector"], *answer.body["tasks"])] == ["RESTARTING"] * 2
    assert orders("POST", "/connectors/orders/tasks/0/restart") == Answer(204)
    assert [key for key, _ in orders.memory.written].count("restart-connector-orders") == 3
    assert orders.error("POST", "/connectors/orders/tasks/1/restart") == (404, "Unknown task: orders-1")


def test_a_restart_of_what_failed_leaves_alone_what_runs(orders: Api) -> None:
    path = "/connectors/orders/restart?onlyFailed=true&includeTasks=false"
    assert orders.error("POST", path) == (404, "Status for connector orders not found")
    orders.say("orders", state="RUNNING")
    answer = orders("POST", path)
    assert (answer.status, answer.body["connector"]["state"]) == (202, "RUNNING")
    assert "restart-connector-orders" not in [key for key, _ in orders.memory.written]
    orders.say("orders", state="FAILED", trace="a line")
    assert orders.body("POST", path)["connector"] == {"state": "RESTARTING", "worker_id": "host:8083"}
    assert orders.memory.written[-1][0] == "restart-connector-orders"


def test_a_restart_has_to_wait_for_a_rebalance(orders: Api) -> None:
    orders.is_rebalancing = True
    assert orders.error("POST", "/connectors/orders/restart")[0] == 409
    assert orders.error("POST", "/connectors/orders/tasks/0/restart")[0] == 409
    assert orders("PUT", "/connectors/orders/pause").status == 202


def test_a_list_may_be_expanded(orders: Api) -> None:
    orders.say("orders", state="RUNNING")
    orders.body("PUT", "/connectors/bills/config", CONFIG)
    both = orders.body("GET", "/connectors?expand=status&expand=info&expand=colour")
    assert both == {
        "orders": {
            "status": orders.body("GET", "/connectors/orders/status"),
            "info": orders.body("GET", "/connectors/orders"),
        }
    }
    assert sorted(orders.body("GET", "/connectors?expand=info")) == ["bills", "orders"]


def test_offsets_come_from_the_checkpoint(orders: Api, tmp_path: Path) -> None:
    assert orders.body("GET", "/connectors/orders/offsets") == {"offsets": []}
    for file, text in [("offsets/0", 'v1\n{}\n{"t":{"0":5}}'), ("commits/0", "v1\n{}")]:
        (tmp_path / "orders" / "spark" / file).parent.mkdir(parents=True)
        (tmp_path / "orders" / "spark" / file).write_text(text)
    partition = {"kafka_topic": "t", "kafka_partition": 0}
    told = [{"partition": partition, "offset": {"kafka_offset": 5}}]
    assert orders.body("GET", "/connectors/orders/offsets") == {"offsets": told}
    (tmp_path / "orders" / "spark" / "offsets" / "0").write_text("v7")
    assert orders.error("GET", "/connectors/orders/offsets")[0] == 500


def change(topic: object, partition: object, offset: object) -> dict[str, object]:
    return {"partition": {"kafka_topic": topic, "kafka_partition": partition}, "offset": offset}


def test_a_stopped_job_is_moved(orders: Api) -> None:
    orders("PUT", "/connectors/orders/stop")
    wanted = [change("t", 0, {"kafka_offset": 5}), change("t", "1", {"kafka_offset": "6"}), change("u", 0, None)]
    told = orders.body("PATCH", "/connectors/orders/offsets", {"offsets": wanted})
    assert told == {"message": "The offsets for this connector have been altered successfully"}
    told = orders.body("DELETE", "/connectors/orders/offsets")
    assert told == {"message": "The offsets for this connector have been reset successfully"}
    assert orders.moved == [("orders", {("t", 0): 5, ("t", 1): 6, ("u", 0): None}), ("orders", None)]


@pytest.mark.parametrize("verb", ["resume", "pause"])
def test_a_job_that_is_to_be_moved_is_to_be_stopped(orders: Api, verb: str) -> None:
    orders("PUT", f"/connectors/orders/{verb}")
    for method, body in (("PATCH", {"offsets": [change("t", 0, None)]}), ("DELETE", None)):
        status, message = orders.error(method, "/connectors/orders/offsets", body)
        assert (status, "must be in the STOPPED state" in message) == (400, True)
    assert orders.moved == []


@pytest.mark.parametrize(
    ("refusal", "status"), [(JobError("orders reads no topics"), 400), (CheckpointError("the job runs already"), 500)]
)
def test_a_job_that_cannot_be_moved_says_why(orders: Api, refusal: Exception, status: int) -> None:
    orders("PUT", "/connectors/orders/stop")
    orders.refusal = refusal
    assert orders.error("DELETE", "/connectors/orders/offsets") == (status, str(refusal))


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"offsets": None},
        {"offsets": []},
        {"offsets": {"t": 1}},
        {"offsets": ["t"]},
        {"offsets": [{"offset": {"kafka_offset": 1}}]},
        {"offsets": [{"partition": {"kafka_topic": "t"}, "offset": None}]},
        {"offsets": [change("t", "first", None)]},
        {"offsets": [change("t", 0, 5)]},
        {"offsets": [change("t", 0, {"offset": 5})]},
        {"offsets": [change("t", 0, {"kafka_offset": -1})]},
        {"offsets": [change("t", 0, {"kafka_offset": True})]},
        {"offsets": [change("t", 0, {"kafka_offset": 1.5})]},
    ],
)
def test_offsets_that_cannot_be_read_are_refused(orders: Api, body: Any) -> None:
    orders("PUT", "/connectors/orders/stop")
    assert orders.error("PATCH", "/connectors/orders/offsets", body)[0] == 400
    assert orders.moved == []


def test_topics_are_not_tracked(orders: Api) -> None:
    assert orders.error("GET", "/connectors/orders/topics") == (403, "Topic tracking is disabled.")
    assert orders.error("PUT", "/connectors/orders/topics/reset") == (403, "Topic tracking is disabled.")


def test_plugins_are_jobs_and_whatever_they_are_made_of(api: Api) -> None:
    jobs = [{"class": plugins.JOB_CLASS, "type": kind, "version": plugins.version()} for kind in ("sink", "source")]
    transform = {"class": "MaskField$Value", "type": "transformation", "version": plugins.version()}
    assert api.body("GET", "/connector-plugins") == jobs
    assert api.body("GET", "/connector-plugins?connectorsOnly=false") == [*jobs, transform]


def test_the_keys_of_a_plugin_are_told(api: Api) -> None:
    keys = api.body("GET", "/connector-plugins/Job/config")
    assert [key["name"] for key in keys if key["required"]] == ["name", "source.type", "sink.type"]
    assert api.body("GET", "/connector-plugins/ottla.pipeline.Job/config") == keys
    assert api.error("GET", "/connector-plugins/FileStreamSink/config") == (404, "Unknown plugin FileStreamSink.")


def test_validation_tells_each_key_what_is_wrong_with_it(api: Api) -> None:
    config = {**CONFIG, "name": "a", "colour": "red"}
    told = api.body("PUT", "/connector-plugins/Job/config/validate", config)
    assert (told["name"], told["error_count"]) == (plugins.JOB_CLASS, 1)
    values = {entry["value"]["name"]: entry["value"] for entry in told["configs"]}
    assert {key: value["errors"] for key, value in values.items() if value["errors"]} == {
        "colour": ["a: colour is unknown"]
    }
    assert (values["colour"]["value"], values["errors.tolerance"]["value"]) == ("red", "none")
    assert all(entry["definition"]["name"] == entry["value"]["name"] for entry in told["configs"])


def test_validation_is_of_the_plugin_that_is_named(api: Api) -> None:
    path = "/connector-plugins/{}/config/validate"
    assert api.error("PUT", path.format("Job"), {"connector.class": "Other"})[0] == 400
    assert api.error("PUT", path.format("Other"), {"connector.class": "Other"})[0] == 404
    assert api("PUT", path.format("Job"), {"connector.class": plugins.JOB_CLASS}).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/connectors/a/b", 404),
        ("GET", "/connectors/a/tasks/0/status/x", 404),
        ("DELETE", "/connectors", 405),
        ("PUT", "/connectors/a/restart", 405),
        ("BREW", "/", 405),
    ],
)
def test_other_paths_and_methods_are_refused(api: Api, method: str, path: str, status: int) -> None:
    answer = api(method, path)
    assert (answer.status, answer.body["error_code"]) == (status, status)
    assert ("Allow" in answer.headers) == (status == 405)


def test_a_bug_is_an_answer_and_a_traceback(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    api.rest = Rest(None, api.rest._server)  # type: ignore[arg-type]
    assert api("GET", "/connectors").status == 500
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_what_is_no_url_is_answered_too(api: Api) -> None:
    assert api.error("GET", "http://[") == (400, "HTTP 400 Bad Request")


def test_of_two_who_change_a_config_at_once_none_undoes_what_the_other_did(orders: Api) -> None:
    write, joined = orders.memory.write, list[threading.Thread]()
    others = [threading.Thread(target=orders, args=("PATCH", CONFIG_PATH, {"mark": "1"}))]

    def slow_write(records: Sequence[Record]) -> None:
        if others:
            joined.append(others.pop())
            joined[0].start()
            joined[0].join(0.3)
        write(records)

    orders.memory.write = slow_write  # type: ignore[method-assign]
    orders.body("PATCH", CONFIG_PATH, {"sink.type": "console"})
    joined[0].join(120)
    assert orders.body("GET", CONFIG_PATH) == {**CONFIG, "sink.type": "console", "mark": "1", "name": "orders"}


def test_while_the_topics_cannot_be_written_to_requests_are_refused_and_do_not_queue_up(
    orders: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(herder, "WRITE_TIMEOUT_S", 0.1)
    told: list[tuple[int, str]] = []
    other = threading.Thread(target=lambda: told.append(orders.error("PUT", "/connectors/orders/pause")))

    def fail(records: Sequence[Record]) -> None:
        other.start()
        other.join(120)
        raise TopicError("configs could not be written to")

    orders.memory.write = fail  # type: ignore[method-assign]
    assert orders.error("PUT", "/connectors/orders/stop") == (500, "configs could not be written to")
    assert told == [(500, "Request timed out")]
    assert caplog.text == ""
