"""One job: where records come from, what becomes of them, where they go, and how often.

Owns the parts of a job and all that can be checked of them before Spark starts. Must not know how it is run.
Counterparts in Kafka: a connector with its transforms, and the topology of a Streams application.
"""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from ottla.pipeline.dead_letters import read_errors
from ottla.pipeline.feed import TOPIC, Feed
from ottla.pipeline.job_file import of_texts
from ottla.pipeline.mirror import MirrorSink
from ottla.pipeline.positions import Positions, UnreachableError
from ottla.pipeline.settings import JobError, Settings
from ottla.pipeline.sinks import SINKS, Sink, read_sink
from ottla.pipeline.steps import read_inputs, read_steps
from ottla.pipeline.steps.step import optional_duration
from ottla.pipeline.topics import BOOTSTRAP, TopicSink
from ottla.pipeline.transforms import read_transforms

MIRROR: Final = "mirror"
# What a connector has to have, and a job does without.
_OF_CONNECT: Final = ("connector.class", "tasks.max")


class Trigger(NamedTuple):
    """When a batch is begun: as soon as it can be, every so often, or until all that there is now is done."""

    processing_time: str | None = None
    continuous: str | None = None
    available_now: bool = False

    def arguments(self) -> dict[str, object]:
        """As PySpark's `trigger` takes them."""
        if self.available_now:
            return {"availableNow": True}
        if self.continuous:
            return {"continuous": self.continuous}
        return {"processingTime": self.processing_time or "0 seconds"}


class Job:
    """What a job file says."""

    def __init__(self, settings: Settings, bootstrap: str | None = None) -> None:
        """`bootstrap`: the brokers of a job that names none."""
        self.file = settings.file
        self.name = settings.text("name", Path(settings.file).stem)
        self.bootstrap = settings.optional(BOOTSTRAP) or bootstrap
        for key in _OF_CONNECT:
            settings.optional(key)
        self.group = settings.text("group.id", f"ottla-pipeline-{self.name}")
        self.spark = _spark_keys(settings.part("spark"))
        self.errors = read_errors(settings.part("errors"))
        self.transforms = read_transforms(settings)
        self.steps = read_steps(settings)
        self.trigger = _trigger(settings.part("trigger"))
        source, sink = settings.part("source"), settings.part("sink")
        self.source = Feed(source, self.bootstrap)
        self.inputs = [(each, Feed(each.settings, self.bootstrap)) for each in read_inputs(settings)]
        self.sink = self._sink(sink, sink.choice("type", (TOPIC, MIRROR, *SINKS)))
        self.dead_letters = self._dead_letters(settings)
        settings.finish()
        for stream in (source, *(each.settings for each, _ in self.inputs if not each.is_table)):
            if "ending.offsets" in stream:
                raise stream.wrong("ending.offsets", "is for inputs that are tables: a stream has no end")
        if self.trigger.continuous and not (self.source.topics and isinstance(self.sink, TopicSink)):
            raise settings.wrong("trigger.continuous", "is for jobs from topics to topics")
        if self.trigger.continuous and isinstance(self.sink, TopicSink) and self.sink.is_once:
            raise settings.wrong("trigger.continuous", "cannot write exactly once, which sink.delivery asks for")
        if self.trigger.continuous and (self.steps or self.errors.tolerates_all):
            raise settings.wrong("trigger.continuous", "knows no steps, and tolerates no bad record")

    def _sink(self, settings: Settings, kind: str) -> TopicSink | MirrorSink | Sink:
        if kind == TOPIC:
            return TopicSink(settings, self.bootstrap)
        return MirrorSink(settings, self.bootstrap, self.source.topics) if kind == MIRROR else read_sink(settings)

    def _dead_letters(self, settings: Settings) -> str | None:
        """The brokers that have the topic of bad records, if there is one."""
        topic = self.errors.topic
        if topic is None:
            return None
        of_source = None if self.source.topics is None else self.source.topics.bootstrap
        of_sink = self.sink.bootstrap if isinstance(self.sink, TopicSink | MirrorSink) else None
        bootstrap = settings.text(BOOTSTRAP, of_source or of_sink or self.bootstrap)
        for feed in [self.source, *(feed for _, feed in self.inputs)]:
            if feed.topics is not None and feed.topics.bootstrap == bootstrap and feed.topics.reads(topic):
                reason = f"is {topic}, which the job reads: a bad record would come back for ever"
                raise settings.wrong("errors.deadletterqueue.topic.name", reason)
        return bootstrap

    def needs(self) -> set[str]:
        """Which of Spark's jars."""
        feeds = [self.source, *(feed for _, feed in self.inputs)]
        return {need for part in (self.sink, *feeds) for need in part.needs}

    def check(self) -> None:
        """Ask the brokers whether they are there and have what is wanted, before Spark takes its time to start.

        The topic of bad records is made if it is missing, as Connect does.
        """
        wanted: dict[str, set[str]] = {}
        if isinstance(self.sink, TopicSink | MirrorSink):
            wanted[self.sink.bootstrap] = set()
        for topics in [self.source.topics, *(feed.topics for _, feed in self.inputs)]:
            if topics is not None:
                wanted.setdefault(topics.bootstrap, set()).update(topics.names or ())
        for bootstrap, names in wanted.items():
            with closing(Positions(bootstrap)) as positions:
                positions.partitions(sorted(names))
        if isinstance(self.sink, TopicSink):
            self.sink.check()
        self._make_dead_letters()

    def _make_dead_letters(self) -> None:
        topic = self.errors.topic
        if self.dead_letters is None or topic is None or not self.errors.tolerates_all:
            return
        with closing(Positions(self.dead_letters)) as positions:
            if topic not in positions.topics():
                try:
                    positions.create(topic, 1, replication_factor=self.errors.replication_factor)
                except UnreachableError as error:
                    said = f"names {topic}, which is missing and cannot be made: {error}"
                    raise JobError(f"{self.file}: errors.deadletterqueue.topic.name {said}") from None


def problems(config: Mapping[str, str], name: str, bootstrap: str | None = None) -> list[tuple[str, str]]:
    """What is wrong with a job in Connect's flat form, the first thing of it: which key, and a text that names it."""
    try:
        Job(of_texts(config, name), bootstrap)
    except JobError as error:
        return [(error.key or "name", f"{error.key} {error.reason}".strip())]
    return []


def _spark_keys(settings: Settings) -> dict[str, str]:
    """Spark's own keys, all of which begin with `spark.`: in a table of that name they may be whole, or the rest."""
    return {f"spark.{key.removeprefix('spark.')}": text for key, text in settings.all_texts().items()}


def _trigger(settings: Settings) -> Trigger:
    trigger = Trigger(
        optional_duration(settings, "processing.time"),
        optional_duration(settings, "continuous"),
        settings.truth("available.now", default=False),
    )
    settings.finish()
    if sum(map(bool, trigger)) > 1:
        raise settings.wrong("continuous", "processing.time and available.now exclude each other")
    return trigger
