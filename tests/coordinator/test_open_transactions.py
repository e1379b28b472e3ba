"""The records of transactions that are open while a log is read."""

from ottla.coordinator.open_transactions import OpenTransactions


def test_the_records_of_a_transaction_come_with_its_commit() -> None:
    transactions = OpenTransactions()
    transactions.write(1, 5, b"a", b"1")
    transactions.write(2, 6, b"a", b"2")
    transactions.write(1, 7, b"b", b"3")
    assert transactions.end(1, is_commit=True) == {b"a": (5, b"1"), b"b": (7, b"3")}
    assert transactions.end(1, is_commit=True) == {}
    assert transactions.end(2, is_commit=False) == {}
    assert list(transactions) == []


def test_the_last_record_of_a_key_counts() -> None:
    transactions = OpenTransactions()
    transactions.write(1, 5, b"a", b"1")
    transactions.write(1, 6, b"b", b"1")
    transactions.write(1, 7, b"a", b"2")
    transactions.write(1, 8, b"b", None)
    assert list(transactions) == [(1, {b"a": (7, b"2")})]


def test_a_deletion_outside_of_transactions_drops_earlier_records_of_all() -> None:
    transactions = OpenTransactions()
    transactions.write(1, 5, b"a", b"1")
    transactions.write(1, 6, b"b", b"1")
    transactions.write(2, 7, b"a", b"2")
    transactions.delete(b"a")
    transactions.write(2, 9, b"a", b"3")
    assert list(transactions) == [(1, {b"b": (6, b"1")}), (2, {b"a": (9, b"3")})]
