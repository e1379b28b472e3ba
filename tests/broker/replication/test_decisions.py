import pytest

from ottla.broker.replication.decisions import (
    Append,
    Decision,
    FollowerFetch,
    Question,
    StartAt,
    TruncateTo,
    truncation_offset,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.types import TopicPartition
from tests.broker.replication.follower_model import BACKOFF, HERE, ID, SETTINGS, ModelLog, fetched


def fetcher(log: ModelLog, epoch: int = 5, high_watermark: int = 0) -> FollowerFetch:
    fetch = FollowerFetch(SETTINGS)
    fetch.follow(HERE, epoch, log, high_watermark)
    return fetch


def ask(fetch: FollowerFetch, now: float = 0.0) -> Question:
    question = fetch.next_question(now, 7)
    assert question is not None
    return question


def located(offset: int, error: int = 0) -> ListOffsetsResponse:
    answer = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[answer])])


def decide(fetch: FollowerFetch, question: Question, response: FetchResponse | ListOffsetsResponse) -> list[Decision]:
    return list(fetch.decide(question, response, 0.0))


# Decisions on answers


def test_records_are_appended_with_the_leaders_offsets() -> None:
    fetch = fetcher(ModelLog(1))
    (decision,) = decide(fetch, ask(fetch), fetched(records=b"r", high_watermark=3, log_start_offset=2))
    assert isinstance(decision, Append)
    assert (bytes(decision.records), decision.high_watermark, decision.log_start_offset) == (b"r", 3, 2)


def test_an_empty_answer_still_carries_the_high_watermark() -> None:
    fetch = fetcher(ModelLog(1))
    (decision,) = decide(fetch, ask(fetch), fetched(records=None, high_watermark=3))
    assert isinstance(decision, Append)
    assert (len(decision.records), decision.high_watermark) == (0, 3)


@pytest.mark.parametrize(
    ("own", "epoch", "leader_end", "offset"),
    [
        # The leader's epoch 2 ends before the follower's.
        ((1, 2, 2, 2), 2, 2, 2),
        # The follower's ends first; what follows is of an epoch that the leader does not have.
        ((1, 2, 4, 4), 2, 9, 2),
        # The leader has an epoch that the follower lacks: only the one before may be common.
        ((1, 1, 4), 3, 9, 2),
        # All that the follower has is newer than what the leader names.
        ((3, 3), 2, 1, 0),
        # It ends before the leader's end.
        ((2,), 2, 9, 1),
    ],
)
def test_a_diverging_log_is_truncated_to_the_last_offset_that_may_be_common(
    own: tuple[int, ...], epoch: int, leader_end: int, offset: int
) -> None:
    log = ModelLog(*own)
    fetch = fetcher(log)
    diverging = EpochEndOffset(epoch=epoch, end_offset=leader_end)
    (decision,) = decide(fetch, ask(fetch), fetched(records=b"r", diverging_epoch=diverging))
    assert isinstance(decision, TruncateTo)
    assert decision.offset == truncation_offset(log, epoch, leader_end) == offset


def test_a_log_without_an_epoch_is_truncated_to_the_leaders_offset() -> None:
    assert truncation_offset(ModelLog(), 3, 4) == 0
    log = ModelLog(1, 1, 1)
    log.epochs.clear()
    assert truncation_offset(log, 3, 2) == 2


def test_a_log_that_lost_its_epochs_keeps_its_committed_records() -> None:
    log = ModelLog(1, 1, 1)
    log.epochs.clear()
    fetch = FollowerFetch(SETTINGS)
    first = fetch.follow(HERE, 5, log, 2)
    assert first is not None
    assert first.offset == 2
    assert fetch.follow(HERE, 5, log, 3) is None
    assert fetch.follow(HERE, 5, ModelLog(1, 1, 1), 0) is None


def test_out_of_range_above_the_leaders_end_the_log_is_cut_there() -> None:
    fetch = fetcher(ModelLog(1, 1, 1))
    assert decide(fetch, ask(fetch), fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)) == []
    question = ask(fetch)
    assert isinstance(question.request, ListOffsetsRequest)
    (asked,) = question.request.topics[0].partitions
    assert (asked.timestamp, asked.current_leader_epoch, question.request.replica_id, question.version) == (-1, 5, 1, 9)
    (decision,) = decide(fetch, question, located(2))
    assert isinstance(decision, TruncateTo)
    assert decision.offset == 2
    assert isinstance(ask(fetch).request, FetchRequest)


def test_out_of_range_below_the_leaders_start_the_log_begins_anew_there() -> None:
    fetch = fetcher(ModelLog(1, 1, 1))
    decide(fetch, ask(fetch), fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert decide(fetch, ask(fetch), located(9)) == []
    question = ask(fetch)
    assert isinstance(question.request, ListOffsetsRequest)
    assert question.request.topics[0].partitions[0].timestamp == -2
    (decision,) = decide(fetch, question, located(7))
    assert isinstance(decision, StartAt)
    assert decision.offset == 7
    assert isinstance(ask(fetch).request, FetchRequest)


def test_a_position_that_is_in_range_again_is_fetched_after_the_backoff() -> None:
    fetch = fetcher(ModelLog(1, 1, 1))
    decide(fetch, ask(fetch), fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    decide(fetch, ask(fetch), located(9))
    assert decide(fetch, ask(fetch), located(3)) == []
    assert fetch.next_question(BACKOFF / 2, 7) is None
    assert isinstance(ask(fetch, BACKOFF).request, FetchRequest)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_an_error_makes_a_partition_rest_and_then_fetch(step: int) -> None:
    fetch = fetcher(ModelLog(1))
    error = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if step == 1:
        assert decide(fetch, ask(fetch), fetched(error_code=error)) == []
    else:
        decide(fetch, ask(fetch), fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        if step == 3:
            decide(fetch, ask(fetch), located(9))
        assert decide(fetch, ask(fetch), located(-1, error)) == []
    assert fetch.next_question(0.0, 7) is None
    assert fetch.wakes_at() == BACKOFF
    assert isinstance(ask(fetch, BACKOFF).request, FetchRequest)


def test_an_error_of_the_whole_answer_makes_all_rest() -> None:
    fetch = fetcher(ModelLog(1))
    assert decide(fetch, ask(fetch), FetchResponse(error_code=ErrorCode.UNKNOWN_TOPIC_ID, responses=())) == []
    assert fetch.wakes_at() == BACKOFF


def test_after_a_failure_a_new_session_names_all_partitions() -> None:
    fetch = FollowerFetch(SETTINGS._replace(backoff_seconds=0))
    fetch.follow(HERE, 5, ModelLog(1), 0)
    response = fetched()
    response.session_id = 9
    decide(fetch, ask(fetch), response)
    request = ask(fetch).request
    assert isinstance(request, FetchRequest)
    assert (request.session_id, request.session_epoch, request.topics) == (9, 1, [])
    fetch.failed(0.0)
    request = ask(fetch).request
    assert isinstance(request, FetchRequest)
    assert (request.session_id, request.session_epoch, len(request.topics)) == (9, 0, 1)


def test_a_session_that_the_leader_forgot_is_begun_anew_at_once() -> None:
    fetch = fetcher(ModelLog(1))
    response = fetched()
    response.session_id = 9
    decide(fetch, ask(fetch), response)
    forgotten = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=())
    assert decide(fetch, ask(fetch), forgotten) == []
    request = ask(fetch).request
    assert isinstance(request, FetchRequest)
    assert (request.session_epoch, len(request.topics)) == (0, 1)


def test_a_session_of_names_follows_one_of_ids_when_a_topic_without_an_id_comes() -> None:
    fetch = fetcher(ModelLog(1))
    response = fetched()
    response.session_id = 9
    decide(fetch, ask(fetch), response)
    old = ModelLog(1)
    old.topic_id = None
    fetch.follow(TopicPartition("old", 0), 5, old, 0)
    question = ask(fetch)
    assert question.version == 12
    decide(fetch, question, FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, responses=()))
    question = ask(fetch)
    assert isinstance(question.request, FetchRequest)
    assert (question.version, [topic.topic for topic in question.request.topics]) == (12, ["t", "old"])


def test_a_partition_that_rests_or_is_stopped_leaves_the_session() -> None:
    fetch = FollowerFetch(SETTINGS)
    for index in range(3):
        fetch.follow(TopicPartition("t", index), 5, ModelLog(1), 0)
    response = fetched(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    response.session_id = 9
    decide(fetch, ask(fetch), response)
    fetch.unfollow(TopicPartition("t", 1))
    request = ask(fetch).request
    assert isinstance(request, FetchRequest)
    assert request.topics == []
    assert [(each.topic_id, sorted(each.partitions)) for each in request.forgotten_topics_data] == [(ID, [0, 1])]
    request = ask(fetch, BACKOFF).request
    assert isinstance(request, FetchRequest)
    assert [each.partition for topic in request.topics for each in topic.partitions] == [0]


def test_a_topic_that_was_made_anew_takes_the_place_of_the_old_one() -> None:
    fetch = fetcher(ModelLog(1))
    response = fetched()
    response.session_id = 9
    decide(fetch, ask(fetch), response)
    new = ModelLog()
    new.topic_id = b"\2" * 16
    fetch.follow(HERE, 0, new, 0)
    request = ask(fetch).request
    assert isinstance(request, FetchRequest)
    assert [each.topic_id for each in request.topics] == [new.topic_id]
    assert [(each.topic_id, each.partitions) for each in request.forgotten_topics_data] == [(ID, [0])]


def test_resting_does_not_begin_again_while_it_lasts() -> None:
    fetch = fetcher(ModelLog(1))
    fetch.failed(0.0)
    fetch.failed(BACKOFF / 2)
    assert fetch.wakes_at() == BACKOFF


def test_a_fenced_partition_is_dropped() -> None:
    fetch = fetcher(ModelLog(1))
    assert decide(fetch, ask(fetch), fetched(error_code=ErrorCode.FENCED_LEADER_EPOCH)) == []
    assert len(fetch) == 0
    assert fetch.wakes_at() == float("inf")


def test_an_answer_decides_nothing_once_another_epoch_has_begun() -> None:
    log = ModelLog(1)
    fetch = fetcher(log)
    question = ask(fetch)
    fetch.follow(HERE, 6, log, 0)
    for response in (fetched(records=b"r"), fetched(error_code=ErrorCode.FENCED_LEADER_EPOCH)):
        assert decide(fetch, question, response) == []
    fetch.unfollow(HERE)
    assert decide(fetch, question, fetched(records=b"r")) == []


def test_an_answer_decides_nothing_for_a_log_that_ends_elsewhere_now() -> None:
    log = ModelLog(1)
    fetch = fetcher(log)
    question = ask(fetch)
    log.append(1, 0)
    assert decide(fetch, question, fetched(records=b"r")) == []


def test_each_decision_is_made_when_the_one_before_is_carried_out() -> None:
    fetch = fetcher(ModelLog(1))
    question = ask(fetch)
    response = fetched(records=b"r")
    twice = FetchResponse(responses=[*response.responses, *response.responses])
    decisions = fetch.decide(question, twice, 0.0)
    assert isinstance(next(decisions), Append)
    fetch.unfollow(HERE)
    assert list(decisions) == []


def test_an_answer_for_a_partition_that_was_not_asked_for_is_ignored() -> None:
    fetch = fetcher(ModelLog(1))
    answer = PartitionData(partition_index=1, error_code=0, high_watermark=0, records=b"r")
    response = FetchResponse(responses=[FetchableTopicResponse(topic_id=ID, partitions=[answer])])
    assert decide(fetch, ask(fetch), response) == []


def test_a_partition_that_got_records_is_asked_for_last() -> None:
    fetch = FollowerFetch(SETTINGS)
    for index in range(3):
        fetch.follow(TopicPartition("t", index), 5, ModelLog(1), 0)
    decide(fetch, ask(fetch), fetched(records=b"r"))
    request = ask(fetch).request
    assert isinstance(request, FetchRequest)
    assert [each.partition for each in request.topics[0].partitions] == [1, 2, 0]


# Throttled


def all_are(topic_partition: TopicPartition) -> bool:
    return True


def test_a_throttled_follower_that_lags_is_not_fetched_for_until_it_may_be() -> None:
    log = ModelLog(1)
    fetch = fetcher(log)
    # It does not know yet how far the leader is.
    assert fetch.next_question(0.0, 7, all_are) is None
    assert fetch.wakes_at() == BACKOFF
    assert decide(fetch, ask(fetch, BACKOFF), fetched(records=b"r", high_watermark=3)) != []
    assert fetch.next_question(5.0, 7, all_are) is None
    assert fetch.wakes_at() == 5.0 + BACKOFF
    assert ask(fetch, 5.0 + BACKOFF).asked.keys() == {HERE}
    assert fetch.wakes_at() == float("inf")


def test_a_throttled_follower_that_is_in_sync_is_fetched_for_all_the_same() -> None:
    log = ModelLog(1)
    fetch = fetcher(log)
    decide(fetch, ask(fetch), fetched(high_watermark=1))
    assert fetch.next_question(0.0, 7, all_are) is not None
    # The leader says that there is more, and that others have it.
    decide(fetch, ask(fetch), fetched(high_watermark=2))
    assert fetch.next_question(0.0, 7, all_are) is None


def test_others_are_fetched_for_while_one_is_throttled() -> None:
    fetch = fetcher(ModelLog(1))
    other = TopicPartition("t", 1)
    fetch.follow(other, 5, ModelLog(1), 0)
    question = ask(fetch)
    assert question.asked.keys() == {HERE, other}
    decide(fetch, question, FetchResponse(session_id=9, responses=()))
    throttled = fetch.next_question(0.0, 7, HERE.__eq__)
    assert throttled is not None
    assert throttled.asked.keys() == {other}
    assert isinstance(throttled.request, FetchRequest)
    assert (throttled.request.session_id, throttled.request.session_epoch) == (9, 1)
    assert [(each.topic_id, each.partitions) for each in throttled.request.forgotten_topics_data] == [(ID, [0])]
    decide(fetch, throttled, FetchResponse(session_id=9, responses=()))
    again = ask(fetch)
    assert isinstance(again.request, FetchRequest)
    assert [each.partition for topic in again.request.topics for each in topic.partitions] == [0]
    assert again.asked.keys() == {HERE, other}


def test_a_partition_that_is_no_longer_followed_is_not_throttled() -> None:
    fetch = fetcher(ModelLog(1))
    assert fetch.next_question(0.0, 7, all_are) is None
    fetch.unfollow(HERE)
    assert fetch.next_question(0.0, 7, all_are) is None
    assert fetch.wakes_at() == float("inf")
