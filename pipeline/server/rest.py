"""Connect's REST interface: which method on which path does what.

Owns paths, methods, statuses and bodies. Must not know sockets, nor how anything is done. Counterparts in Kafka:
RootResource, ConnectorsResource, ConnectorPluginsResource.
"""

import logging
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.pipeline.server import checkpoint, plugins
from ottla.pipeline.server.answers import Answer, RestError
from ottla.pipeline.server.herder import Herder
from ottla.pipeline.server.state import PAUSED, STARTED, STOPPED

logger = logging.getLogger(__name__)

NO_TRACKING: Final = "Topic tracking is disabled."


@dataclass(frozen=True)
class Request:
    """A request: what its path has in the places of names, its query, its body once that was JSON."""

    names: Sequence[str]
    query: Mapping[str, Sequence[str]]
    body: Any

    @property
    def name(self) -> str:
        """The first name of the path."""
        return self.names[0]

    def is_set(self, flag: str, *, default: bool = False) -> bool:
        """Whether a flag of the query is true."""
        return self.query[flag][0].lower() == "true" if flag in self.query else default

    def config(self, what: Any = None, *, nulls: bool = False) -> dict[str, Any]:
        """The body, or another object in its stead, as keys and texts."""
        pairs = self.body if what is None else what
        if not isinstance(pairs, dict):
            raise RestError(400, "the config is to be an object of texts")
        for key, value in pairs.items():
            if isinstance(value, dict | list) or (value is None and not nulls):
                raise RestError(400, f"the value of {key} is to be a text")
        return {key: _text(value) for key, value in pairs.items()}


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Server:
    """What is known of the server itself."""

    cluster_id: str
    health: Callable[[], str]
    """One of "healthy", "starting", "unhealthy"."""
    plugins: Sequence[tuple[str, str]] = ()
    """The classes and types of what is no connector."""


_HEALTH: Final = {
    "healthy": (200, "Worker has completed startup and is ready to handle requests."),
    "starting": (503, "Worker is still starting up."),
    "unhealthy": (500, "Worker was unable to handle this request and may be unable to handle other requests."),
}


class Rest:
    """All paths."""

    def __init__(self, herder: Herder, server: Server) -> None:
        self._herder = herder
        self._server = server

    def answer(self, method: str, target: str, body: Any) -> Answer:
        """Do what is asked for; what goes wrong is an answer, too."""
        try:
            parts = urllib.parse.urlsplit(target)
        except ValueError:
            return RestError(400, "HTTP 400 Bad Request").answer
        path = [urllib.parse.unquote(part) for part in parts.path.split("/") if part]
        query = urllib.parse.parse_qs(parts.query, keep_blank_values=True)
        try:
            handler, names = _find("GET" if method == "HEAD" else method, path)
            return handler(self, Request(names, query, body))
        except RestError as error:
            return error.answer
        except Exception as error:
            logger.exception("%s %s", method, parts.path)
            return RestError(500, str(error) or type(error).__name__).answer

    def root(self, request: Request) -> Answer:
        """Tell the version and the cluster."""
        about = {"version": plugins.version(), "commit": "unknown", "kafka_cluster_id": self._server.cluster_id}
        return Answer(200, about)

    def health(self, request: Request) -> Answer:
        """Tell whether this server does its work."""
        health = self._server.health()
        status, message = _HEALTH[health]
        return Answer(status, {"status": health, "message": message})

    def list(self, request: Request) -> Answer:
        """Tell the jobs; with `expand`, what there is to know of each."""
        expand = request.query.get("expand")
        if expand is None:
            return Answer(200, self._herder.names())
        ways = {"status": self._herder.status, "info": self._herder.info}
        told: dict[str, dict[str, Any]] = {}
        for name in self._herder.names():
            try:
                told[name] = {what: ways[what](name) for what in expand if what in ways}
            except RestError:
                logger.debug("%s is left out: it is new, or gone", name)
        return Answer(200, told)

    def create(self, request: Request) -> Answer:
        """Make a job."""
        if not isinstance(request.body, dict):
            raise RestError(400, "the body is to be an object with name and config")
        name = str(request.body.get("name") or "").strip()
        initial_state = _text(request.body.get("initial_state"))
        created = self._herder.create(name, request.config(request.body.get("config", "")), initial_state)
        return Answer(201, created, _location(name))

    def info(self, request: Request) -> Answer:
        """Tell of a job."""
        return Answer(200, self._herder.info(request.name))

    def config(self, request: Request) -> Answer:
        """Tell a job's config."""
        return Answer(200, dict(self._herder.job(request.name).config))

    def configure(self, request: Request) -> Answer:
        """Make a job, or give it another config."""
        is_new, info = self._herder.configure(request.name, request.config())
        return Answer(201, info, _location(request.name)) if is_new else Answer(200, info)

    def patch(self, request: Request) -> Answer:
        """Change some keys of a job's config."""
        return Answer(200, self._herder.patch(request.name, request.config(nulls=True)))

    def status(self, request: Request) -> Answer:
        """Tell how a job is."""
        return Answer(200, self._herder.status(request.name))

    def delete(self, request: Request) -> Answer:
        """Remove a job."""
        self._herder.delete(request.name)
        return Answer(204)

    def pause(self, request: Request) -> Answer:
        """Have a job end, and keep its place."""
        self._herder.set_target(request.name, PAUSED)
        return Answer(202)

    def resume(self, request: Request) -> Answer:
        """Have a job run."""
        self._herder.set_target(request.name, STARTED)
        return Answer(202)

    def stop(self, request: Request) -> Answer:
        """Have a job end, so that its offsets may be changed."""
        self._herder.set_target(request.name, STOPPED)
        return Answer(204)

    def restart(self, request: Request) -> Answer:
        """Have a job begin anew."""
        name = request.name
        only_failed = request.is_set("onlyFailed")
        told = self._herder.restart(name, only_failed=only_failed)
        if not (only_failed or request.is_set("includeTasks")):
            return Answer(204)
        if told is None:
            raise RestError(404, f"Status for connector {name} not found")
        return Answer(202, told)

    def tasks(self, request: Request) -> Answer:
        """Tell a job's tasks: the one that it is."""
        info = self._herder.info(request.name)
        return Answer(200, [{"id": task, "config": info["config"]} for task in info["tasks"]])

    def tasks_config(self, request: Request) -> Answer:
        """Tell the same by names, as old clients want it."""
        info = self._herder.info(request.name)
        return Answer(200, {f"{task['connector']}-{task['task']}": info["config"] for task in info["tasks"]})

    def task_status(self, request: Request) -> Answer:
        """Tell how a task is."""
        return Answer(200, self._herder.task_status(request.name, request.names[1]))

    def restart_task(self, request: Request) -> Answer:
        """Have a task begin anew."""
        self._herder.restart_task(request.name, request.names[1])
        return Answer(204)

    def topics(self, request: Request) -> Answer:
        """Refuse as Connect does with topic.tracking.enable=false."""
        raise RestError(403, NO_TRACKING)

    def offsets(self, request: Request) -> Answer:
        """Tell how far a job has come."""
        return Answer(200, self._herder.offsets(request.name))

    def alter_offsets(self, request: Request) -> Answer:
        """Have a job begin elsewhere in some partitions."""
        changes = checkpoint.changes(request.body)
        self._herder.move(request.name, changes)
        return Answer(200, {"message": "The offsets for this connector have been altered successfully"})

    def reset_offsets(self, request: Request) -> Answer:
        """Have a job begin where it began once."""
        self._herder.move(request.name, None)
        return Answer(200, {"message": "The offsets for this connector have been reset successfully"})

    def plugins(self, request: Request) -> Answer:
        """Tell what jobs are made of."""
        only = request.is_set("connectorsOnly", default=True)
        return Answer(200, plugins.listed(self._server.plugins, connectors_only=only))

    def plugin_config(self, request: Request) -> Answer:
        """Tell which keys any job may have."""
        name = request.name
        if not plugins.is_job(name):
            raise RestError(404, f"Unknown plugin {name}.")
        return Answer(200, plugins.definitions())

    def validate(self, request: Request) -> Answer:
        """Tell what is wrong with a config."""
        name = request.name
        config = request.config()
        included = config.get(plugins.CLASS_KEY)
        if included is not None and not included.endswith(name):
            raise RestError(400, f"Included connector type {included} does not match request type {name}")
        if not plugins.is_job(name):
            raise RestError(404, f"Unknown plugin {name}.")
        return Answer(200, self._herder.validate(config))


_Handler = Callable[[Rest, Request], Answer]

# A star is a name.
_PATHS: Final[dict[str, dict[str, _Handler]]] = {
    "": {"GET": Rest.root},
    "health": {"GET": Rest.health},
    "connectors": {"GET": Rest.list, "POST": Rest.create},
    "connectors/*": {"GET": Rest.info, "DELETE": Rest.delete},
    "connectors/*/config": {"GET": Rest.config, "PUT": Rest.configure, "PATCH": Rest.patch},
    "connectors/*/status": {"GET": Rest.status},
    "connectors/*/pause": {"PUT": Rest.pause},
    "connectors/*/resume": {"PUT": Rest.resume},
    "connectors/*/stop": {"PUT": Rest.stop},
    "connectors/*/restart": {"POST": Rest.restart},
    "connectors/*/tasks": {"GET": Rest.tasks},
    "connectors/*/tasks-config": {"GET": Rest.tasks_config},
    "connectors/*/tasks/*/status": {"GET": Rest.task_status},
    "connectors/*/tasks/*/restart": {"POST": Rest.restart_task},
    "connectors/*/topics": {"GET": Rest.topics},
    "connectors/*/topics/reset": {"PUT": Rest.topics},
    "connectors/*/offsets": {"GET": Rest.offsets, "PATCH": Rest.alter_offsets, "DELETE": Rest.reset_offsets},
    "connector-plugins": {"GET": Rest.plugins},
    "connector-plugins/*/config": {"GET": Rest.plugin_config},
    "connector-plugins/*/config/validate": {"PUT": Rest.validate},
}
_ROUTES: Final = [(pattern.split("/") if pattern else [], methods) for pattern, methods in _PATHS.items()]


def _find(method: str, path: list[str]) -> tuple[_Handler, list[str]]:
    """Find what a path does, and the names in it."""
    for pattern, methods in _ROUTES:
        if len(pattern) == len(path) and all(part in ("*", given) for part, given in zip(pattern, path, strict=True)):
            if method not in methods:
                raise RestError(405, "HTTP 405 Method Not Allowed", {"Allow": ", ".join(methods)})
            return methods[method], [given for part, given in zip(pattern, path, strict=True) if part == "*"]
    raise RestError(404, "HTTP 404 Not Found")


def _location(name: str) -> dict[str, str]:
    return {"Location": f"/connectors/{urllib.parse.quote(name, safe='')}"}
