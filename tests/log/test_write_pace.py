from ottla.log.write_pace import QUIET_FACTOR, SLOW_SECONDS, WRITES, WritePace


class Directory:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.pace = WritePace(lambda: self.seconds)

    def write(self, *, took: float) -> None:
        self.seconds += took
        self.pace.took(took)

    def append(self) -> None:
        self.pace.enter()
        self.pace.leave()


def test_a_slow_write_makes_its_directory_slow_for_ten_times_as_long() -> None:
    directory = Directory()
    directory.write(took=0.3)
    assert directory.pace.is_slow
    directory.seconds += 2.9
    directory.append()
    assert directory.pace.is_slow
    directory.seconds += 0.2
    assert directory.pace.is_slow
    directory.append()
    assert not directory.pace.is_slow


def test_one_slow_write_among_quick_writes_leaves_the_directory_quick() -> None:
    directory = Directory()
    for _ in range(10):
        directory.write(took=0.05)
        for _ in range(3 * WRITES):
            directory.write(took=0.00001)
    assert not directory.pace.is_slow


def test_writes_that_are_all_a_little_slow_make_the_directory_slow() -> None:
    directory = Directory()
    for _ in range(WRITES):
        directory.write(took=2 * SLOW_SECONDS)
    assert directory.pace.is_slow


def test_a_directory_is_slow_for_as_long_as_an_append_waits() -> None:
    directory = Directory()
    directory.write(took=1.0)
    directory.pace.enter()
    directory.seconds += 2 * QUIET_FACTOR
    directory.append()
    assert directory.pace.is_slow
    directory.pace.leave()
    assert not directory.pace.is_slow


def test_slow_writes_extend_the_slow_time() -> None:
    directory = Directory()
    directory.write(took=0.3)
    directory.seconds += 2.5
    directory.write(took=0.3)
    directory.seconds += 2.9
    directory.append()
    assert directory.pace.is_slow
