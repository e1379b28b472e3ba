"""The generator, the comparison and the shrinking of `test_generated`, without brokers."""

import base64
import random
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from compat_tests.differential.both import Difference, Names, PerSide, differences
from compat_tests.differential.generated import advertised, allowed, conditions, controllers
from compat_tests.differential.generated.conditions import Asked, Sent
from compat_tests.differential.generated.generator import Generator, Step
from compat_tests.differential.generated.own import NO_ID, Learned, Own, Records, id_of_nothing
from compat_tests.differential.generated.pair import Exchange, without_other_sessions
from compat_tests.differential.generated.session import OF_BROKERS, OF_CLIENTS, Deck, Failure, topics_of
from compat_tests.differential.generated.shrinking import Shrinker, smaller_values
from compat_tests.differential.generated.specification import Field, key_of, requests
from compat_tests.support.brokers import Ottla

PRODUCE, METADATA = key_of("Produce"), key_of("Metadata")
TAG = "unknownTag"


@pytest.fixture
def learned(tmp_path: Path) -> Learned:
    """Return the empty values of a broker that was never started."""
    facts = {controllers.CONTROLLER_EPOCH: 3, controllers.BROKER_EPOCH: 25}
    return Learned(Names(Ottla(tmp_path), repeats=True), "s1-", facts)


def everything() -> list[tuple[int, int]]:
    """Return each API that both brokers offer, with each of its versions."""
    found = [requests()[key_of(api)] for api in (*advertised.HIGHEST, "AllocateProducerIds")]
    return [(each.key, version) for each in found for version in range(each.lowest, each.highest + 1)]


def made(seed: int, learned: Learned, count: int = 3) -> list[Step]:
    generator = Generator(f"{seed}", learned, controllers.KIND.adjustments)
    return [generator.request(key, version) for _ in range(count) for key, version in everything()]


# Making requests


def test_a_seed_makes_the_same_requests_again_and_another_seed_others(learned: Learned) -> None:
    assert made(1, learned) == made(1, learned) != made(2, learned)


def test_a_request_has_the_fields_of_its_version(learned: Learned) -> None:
    def check(fields: Sequence[Field], value: Any) -> None:
        assert value.keys() - {TAG} == {each.name for each in fields}
        for field in fields:
            elements = value[field.name] if field.type.startswith("[]") else [value[field.name]]
            for element in elements or () if field.fields else ():
                check(field.fields, element)

    for step in made(3, learned):
        if step.api != "UpdateMetadata":
            check(requests()[step.key].fields(step.version), step.fields)
            assert TAG not in step.fields or requests()[step.key].is_flexible(step.version)


def test_most_requests_are_odd_nowhere_and_some_are(learned: Learned) -> None:
    generator = Generator("4", learned)
    acks = Counter(generator.request(PRODUCE, 9).fields["acks"] for _ in range(1000))
    assert 700 < acks[-1] + acks[1] < 1000
    assert acks.keys() >= {0, 2}


SPOILED: Mapping[str, Sequence[dict[str, Any]]] = {
    "Produce": (
        {"topicData": [{"name": "t", "partitionData": [{"index": 0, "records": Records("null records")}]}]},
        {"topicData": [{"name": "t", "partitionData": [{"index": 0, "records": Records("crc")}] * 2}]},
    ),
    "AlterConfigs": ({"resources": [{"resourceType": 2, "resourceName": Own("topic", "t")}] * 2},),
    "CreatePartitions": ({"topics": [{"name": "t", "count": -(2**31)}]},),
    "OffsetFetch": ({"groups": []},),
    "AddPartitionsToTxn": ({"transactions": []},),
    "WriteTxnMarkers": ({"markers": [{"topics": [{"name": "t", "partitionIndexes": [0, 0]}]}]},),
    "LeaderAndIsr": ({"topicStates": [{"topicName": Own("topic", "long", 250)}]},),
}


def test_what_is_not_to_be_asked_is_known_and_not_made(learned: Learned) -> None:
    for rule in allowed.NOT_ASKED:
        assert any(rule.are_so(fields) for fields in SPOILED[rule.api]), rule.reason
    for step in made(5, learned, 20):
        assert not allowed.is_not_asked(step.api, step.fields)


def test_each_version_comes_before_any_comes_again() -> None:
    pairs = [(PRODUCE, version) for version in range(12)] + [(METADATA, version) for version in range(4, 13)]
    deck = Deck(pairs, OF_CLIENTS, "6")
    for _ in range(3):
        assert sorted(deck.draw(only_in_turn=True) for _ in pairs) == pairs
    assert {key for key, _ in Deck(pairs, controllers.KIND, "6").in_turn} == set()
    weighted = Counter(deck.draw() for _ in range(2000))
    assert 0 < weighted[PRODUCE, 0] < weighted[PRODUCE, 3] / 2, "versions that nobody serves come in their turn alone"


def test_what_only_brokers_send_is_no_part_of_what_clients_send() -> None:
    keys = [(key_of(api), 0) for api in sorted(OF_BROKERS)]
    assert Deck([*keys, (PRODUCE, 3)], OF_CLIENTS, "7").in_turn == [(PRODUCE, 3)]
    assert Deck([*keys, (PRODUCE, 3)], controllers.KIND, "7").in_turn == keys


# Values that differ between sides


def test_an_own_value_is_what_the_broker_has_told(learned: Learned) -> None:
    nobody = Own("member", "g", 0), Own("producer", "", 1), Own("topic_id", "t")
    assert [learned.value(each) for each in nobody] == ["nobody", 4711, id_of_nothing("s1-t")]
    joined = {"error_code": 0, "member_id": "m", "generation_id": 7}
    learned.learn("JoinGroup", {"groupId": "s1-g"}, {"groupId": Own("group", "g")}, "a", joined)
    for number in (50, 51):
        learned.learn("InitProducerId", {}, {}, "a", {"error_code": 0, "producer_id": number, "producer_epoch": 2})
    topic = {"name": "s1-t", "topic_id": "an id", "error_code": 0, "partitions": [1, 2]}
    learned.learn("Metadata", {}, {}, "a", {"topics": [topic, {**topic, "name": "s2-t", "topic_id": "other"}]})
    assert [learned.value(each) for each in nobody] == ["m", 51, "an id"]
    assert learned.value({"generationId": [Own("generation", "g"), Own("generation", "g", -1)]}) == {
        "generationId": [7, 6]
    }
    assert learned.partitions == {"t": 2}
    assert learned.value(Own("fact", controllers.CONTROLLER_EPOCH, 1)) == 4
    assert (learned.member_word("m"), learned.producer_word(51)) == ("member 0 of s1-g", "producer 1")
    learned.learn("Metadata", {}, {}, "a", {"topics": [{**topic, "topic_id": "its next id"}]})
    words = [learned.topic_word(each) for each in ("an id", "its next id", "?")]
    assert words == ["id 0 of s1-t", "id 1 of s1-t", "id ?"]
    assert learned.value(Own("topic_id", "t")) == "its next id"


def test_a_transactional_producer_is_known_by_its_number(learned: Learned) -> None:
    for number, name in enumerate((None, Own("transactional_id", "x"), "odd")):
        told = {"error_code": 0, "producer_id": 50 + number, "producer_epoch": 2}
        learned.learn("InitProducerId", {}, {"transactionalId": name}, "a", told)
    assert learned.transactional == {1: "x"}
    who = Own("transactional_id", "x"), Own("producer", "", 1), Own("producer_epoch", "-1", 1)
    assert [learned.value(each) for each in who] == ["s1-x", 51, 1]
    data = base64.b64decode(learned.value(Records(producer=1, epoch=1, transactional=True, control=True)))
    assert struct.unpack_from(">h", data, 21) == (0x30,)
    assert struct.unpack_from(">qhi", data, 43) == (51, 3, 0)


def test_a_fetch_session_goes_on_with_the_next_epoch(learned: Learned) -> None:
    begun = {"error_code": 0, "session_id": 9}
    learned.learn("Fetch", {}, {"sessionEpoch": 0}, "a", begun)
    goes_on = {"sessionId": Own("fetch_session", "a"), "sessionEpoch": Own("fetch_epoch", "a")}
    for epoch in (1, 2):
        assert learned.value(goes_on) == {"sessionId": 9, "sessionEpoch": epoch}
        learned.learn("Fetch", {}, goes_on, "a", begun)


def test_the_topics_of_a_request_are_found_by_name_and_by_id() -> None:
    fields = {
        "topics": [{"name": Own("topic", "b"), "topicId": NO_ID}, {"name": None, "topicId": Own("topic_id", "a")}]
    }
    assert topics_of({**fields, "more": [Own("topic", "long", 250), Own("group", "g"), "x"]}) == ["a", "b"]


# Comparing


def test_elements_are_compared_by_their_names_whatever_their_order(tmp_path: Path) -> None:
    def compared(ottla: Any, kafka: Any) -> list[str]:
        names = Names(Ottla(tmp_path), repeats=True)
        return [each.where for each in differences("X", names.normalised(ottla), names.normalised(kafka))]

    def topic(name: str, *partitions: int, code: int = 0) -> dict[str, Any]:
        return {"name": name, "partitions": [{"partition_index": index, "error_code": code} for index in partitions]}

    assert compared([topic("a", 0), topic("b", 1)], [topic("b", 1), topic("a", 0)]) == []
    assert compared([topic("a", 0), topic("a", 1)], [topic("a", 1, 0)]) == []
    assert compared([topic("a", 0, 0)], [topic("a", 0)]) == ["X.a.partitions.0 #2"]
    assert compared([topic("a", 0)], [topic("a", 0, code=3)]) == ["X.a.partitions.0.error_code"]
    assert compared([topic("a", 0)], []) == ["X"]


def test_what_another_session_has_left_behind_is_not_compared() -> None:
    answer = {"topics": [{"name": "s1-t"}, {"name": "s12-t"}, {"name": "__consumer_offsets"}], "groups": []}
    left = [{"name": "s1-t"}, {"name": "__consumer_offsets"}]
    assert without_other_sessions(answer, "s1-") == {"topics": left, "groups": []}


def test_a_difference_is_allowed_only_where_the_table_says_so() -> None:
    def allows(where: str, ottla: Any, kafka: Any, request: Any = None, *earlier: Sent) -> bool:
        asked = Asked(request or {}, PerSide({}, {}), earlier)
        return allowed.rule(Difference(where, ottla, kafka), asked) is not None

    assert allows("CreateTopics v5.topics.t.error_message", "some words", "others", {"topics": []})
    assert not allows("CreateTopics v5.topics.t.error_message", "some words", "", {"topics": []})
    assert not allows("CreateTopics v5.topics.t.error_code", 3, 17, {"topics": []})
    assert allows("Metadata v5.topics.t.error_code", 3, -1)
    assert not allows("Metadata v5.topics.t.error_code", -1, 3)
    where = "DescribeLogDirs v1.results.log.topics.t.partitions.0.partition_size"
    with_codec = Sent("CreateTopics", {"topics": [{"configs": [{"name": "compression.type"}]}]})
    assert not allows(where, 85, 88)
    assert allows(where, 85, 88, None, with_codec)
    joined = {"isolationLevel": 7}
    assert allows("ListOffsets v5.topics.t.partitions.0.error_code", -1, 42, joined)
    assert allowed.place(Difference("Fetch v12.responses.s31-t0.x", 1, 2)) == "Fetch.responses.t0.x"


def test_every_difference_of_the_table_has_a_reason_of_its_place() -> None:
    places = [(rule.where, rule.ottla, rule.kafka, rule.when) for rule in allowed.RULES]
    assert len({repr(each) for each in places}) == len(places)
    reasons = [each.reason for each in (*allowed.RULES, *allowed.NOT_ASKED, *allowed.ENDING, *allowed.NOT_COMPARED)]
    assert all(len(reason.split()) > 2 for reason in reasons)


def test_an_answer_that_never_comes_is_not_waited_for() -> None:
    def sync(member: str) -> Sent:
        return Sent("SyncGroup", {"groupId": "g", "memberId": member})

    leave = [
        Sent("LeaveGroup", {"groupId": "g", "memberId": "m"}),
        Sent("LeaveGroup", {"groupId": "g", "members": [{"memberId": "n"}, {"memberId": "m"}]}),
    ]
    assert all(allowed.is_not_compared(sync("m"), later) for later in (sync("m"), *leave))
    others = (sync("n"), Sent("JoinGroup", sync("m").fields), Sent("LeaveGroup", {"groupId": "h", "memberId": "m"}))
    assert not any(allowed.is_not_compared(sync("m"), later) for later in others)
    assert not allowed.is_not_compared(sync(""), sync(""))


@pytest.mark.parametrize(
    ("changes", "is_strange"),
    [({}, False), ({"leader": 9}, True), ({"isr": []}, True), ({"replicas": [9]}, True), ({"leaderEpoch": -2}, True)],
)
def test_a_role_is_strange_if_it_is_not_to_lead_in_sync(changes: dict[str, Any], is_strange: bool) -> None:
    state = {"leader": 1, "isr": [1], "replicas": [1], "leaderEpoch": 0, "partitionEpoch": 0, **changes}
    for request in ({"ungroupedPartitionStates": [state]}, {"topicStates": [{"partitionStates": [state]}]}):
        assert conditions.leads_strangely(request) == is_strange


# Shrinking


def failure(steps: Sequence[Step], where: str = "Metadata v9.topics") -> Failure:
    exchange = Exchange(steps[-1], PerSide({}, {}), PerSide({}, {}), [])
    return Failure((Difference(where, 1, 2),), exchange, tuple(steps), number=4)


def step(value: int, *topics: int) -> Step:
    return Step(METADATA, 9, {"value": value, "topics": [{"name": each, "more": [each]} for each in topics]}, "a")


def needs(steps: Sequence[Step]) -> Failure | None:
    """Return a failure after a request 7 with topic 3, if request 2 came before."""
    for at, each in enumerate(steps):
        names = [topic["name"] for topic in each.fields["topics"]]
        if each.fields["value"] == 7 and 3 in names:
            if any(one.fields["value"] == 2 for one in steps[:at]):
                return failure(steps[: at + 1])
            return failure(steps[: at + 1], "Metadata v9.another place")
    return None


def sequences() -> Iterator[list[Step]]:
    choose = random.Random(8)
    for _ in range(30):
        others = [step(choose.choice((0, 1, 2, 7)), *choose.sample((1, 2, 4), 2)) for _ in range(choose.randrange(60))]
        others.insert(choose.randrange(len(others) + 1), step(2))
        yield [*others, step(7, *choose.sample(range(6), 6))]


def test_a_failure_is_shrunk_to_the_requests_and_elements_that_it_needs() -> None:
    for steps in sequences():
        found = needs(steps)
        assert found is not None
        least = Shrinker(needs, found, most_replays=1000).shrink()
        assert [each.fields["value"] for each in least.steps] == [2, 7]
        assert [topic["name"] for topic in least.steps[-1].fields["topics"]] == [3]
        assert least.kind == found.kind
        assert least.number == 4


def test_a_failure_that_does_not_come_again_is_told_as_it_was_found() -> None:
    steps = [step(2), step(0), step(7, 3)]
    replays: list[Sequence[Step]] = []

    def never(steps: Sequence[Step]) -> None:
        replays.append(steps)

    found = failure(steps)
    assert Shrinker(never, found, most_replays=5).shrink() == found
    assert 0 < len(replays) <= 5


def test_a_failure_tells_the_requests_and_both_answers() -> None:
    text = str(failure([step(2), step(7, 3)]))
    assert text.count("over 'a': Metadata v9") == 2
    assert "Metadata v9.topics: Ottla 1, Kafka 2" in text
    assert "the answers of session 4 differ" in text


def test_each_element_of_an_array_is_left_out_once_but_not_all_of_them() -> None:
    assert list(smaller_values({"a": [1, 2], "b": [{"c": [3, 4]}], "d": "x"})) == [
        {"a": [2], "b": [{"c": [3, 4]}], "d": "x"},
        {"a": [1], "b": [{"c": [3, 4]}], "d": "x"},
        {"a": [1, 2], "b": [{"c": [4]}], "d": "x"},
        {"a": [1, 2], "b": [{"c": [3]}], "d": "x"},
    ]
