"""Generated requests, valid and invalid, have the same answers from Ottla and Apache Kafka 3.9.2 with ZooKeeper.

Sessions send each API in each version that both brokers offer, but for those of transactions, and change state. Answers
are compared field by field; `generated/allowed.py` has all allowed differences. A failure prints a short sequence of
requests that leads to it, and the seed that reproduces it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from compat_tests.differential.generated import advertised, controllers
from compat_tests.differential.generated.codec import Codec
from compat_tests.differential.generated.generator import Step
from compat_tests.differential.generated.pair import ONE_THREAD, Pair
from compat_tests.differential.generated.session import Failure, Sessions, drawn_versions
from compat_tests.differential.generated.shrinking import Shrinker
from compat_tests.differential.generated.specification import requests
from compat_tests.support.brokers import Ottla, ZooKeeperKafka, running

pytestmark = pytest.mark.slow
SETTINGS = (
    *ONE_THREAD,
    "broker.id=1",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    # No background work, because each broker would do it at another time.
    "log.cleaner.enable=false",
    "log.retention.ms=-1",
    "offsets.retention.check.interval.ms=1000000000000",
    "producer.id.expiration.check.interval.ms=2000000000",
    "auto.leader.rebalance.enable=false",
    # Room for all fetch sessions of a run, because a full cache gives no session.
    "max.incremental.fetch.session.cache.slots=1000000",
)
REPLAYS_ON_FRESH_BROKERS = 20
Replay = Callable[[Sequence[Step]], Failure | None]


@pytest.fixture(scope="module")
def codec() -> Iterator[Codec]:
    """Run the process of Kafka's classes."""
    with Codec() as codec:
        yield codec


@pytest.fixture(scope="module")
def sessions(codec: Codec, seed: int) -> Iterator[Sessions]:
    """Run both brokers."""
    with running(Ottla, SETTINGS) as ottla, running(ZooKeeperKafka, SETTINGS) as kafka:
        pair = Pair(ottla, kafka, codec)
        pair.warm_up()
        yield Sessions(pair, seed)
        pair.close()
        assert "A bug" not in ottla.output()


class BetweenBrokers:
    """Requests that only brokers send, to brokers of their own."""

    def __init__(self, codec: Codec, seed: int) -> None:
        self._codec = codec
        self._seed = seed
        self.asked: Counter[tuple[int, int]] = Counter()
        self._versions: set[tuple[int, int]] = set()

    @property
    def was_each_asked(self) -> bool:
        """Whether every version was sent."""
        return bool(self._versions) and self._versions <= self.asked.keys()

    def run(self, is_enough: Callable[[], bool]) -> None:
        """Run sessions on fresh brokers, and replace the brokers when they are spoiled."""
        while not is_enough():
            with controllers.fresh_pair(self._codec) as pair:
                sessions = Sessions(pair, self._seed, controllers.KIND, asked=self.asked)
                self._versions |= set(sessions.in_turn)
                run(sessions, is_enough, self._replay)
            # The printed seed is that of the current pair, which is the first pair in a run with this seed.
            self._seed += 1

    def _replay(self, steps: Sequence[Step]) -> Failure | None:
        with controllers.fresh_pair(self._codec) as pair:
            return Sessions(pair, self._seed, controllers.KIND).replay(steps)


@pytest.fixture(scope="module")
def between_brokers(codec: Codec, seed: int) -> BetweenBrokers:
    """Return the runner, which starts brokers when it needs them."""
    return BetweenBrokers(codec, seed)


def run(sessions: Sessions, is_enough: Callable[[], bool], replay_anew: Replay | None = None) -> None:
    """Run sessions until they are enough, or the brokers are spoiled; fail after a difference."""
    while not sessions.is_spoiled and not is_enough():
        failure = sessions.run()
        if failure is None:
            continue
        if sessions.is_spoiled and replay_anew is not None:
            least = Shrinker(replay_anew, failure, REPLAYS_ON_FRESH_BROKERS).shrink()
        else:
            least = Shrinker(sessions.replay, failure).shrink()
        pytest.fail(f"With --seed {sessions.seed}: {least}", pytrace=False)


@pytest.mark.trials(few=5_000, soak=100_000)
def test_both_answer_generated_requests_alike(sessions: Sessions, trials: int, tell: Callable[[str], None]) -> None:
    run(sessions, lambda: sessions.asked.total() >= trials)
    tell(f"generated requests: {sessions.asked.total()}")
    for rule, count in sessions.met.most_common():
        tell(f"{count:8} differences that are meant, {rule.where or 'anywhere'}: {rule.reason}")


@pytest.mark.trials(few=500, soak=5_000)
def test_both_answer_generated_requests_between_brokers_alike(
    between_brokers: BetweenBrokers, trials: int, tell: Callable[[str], None]
) -> None:
    between_brokers.run(lambda: between_brokers.asked.total() >= trials)
    tell(f"generated requests between brokers: {between_brokers.asked.total()}")


def test_every_api_and_version_that_both_offer_is_asked(sessions: Sessions, between_brokers: BetweenBrokers) -> None:
    run(sessions, lambda: not sessions.never_asked())
    between_brokers.run(lambda: between_brokers.was_each_asked)
    asked = sessions.asked + between_brokers.asked
    assert [each for each in drawn_versions(sessions.pair) if not asked[each]] == []
    spoken = list(advertised.spoken_by_old_clients())
    assert {release for release, *_ in spoken} == set(advertised.RELEASES)
    assert [each for each in spoken if not asked[each[2], each[3]]] == []


def test_what_only_one_of_both_offers_is_listed(sessions: Sessions) -> None:
    expected = {api: (offer.ottla, offer.kafka) for api, offer in advertised.ONLY_ONE_SIDE.items()}
    assert advertised.offers(sessions.pair) == expected
    offered = {requests()[key].name for key, _ in sessions.pair.common_versions()}
    assert offered >= set(advertised.HIGHEST)
