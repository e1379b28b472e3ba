from ottla.zk.kazoo_client import set_watches


def test_watches_are_set_again_in_requests_below_the_servers_limit() -> None:
    data = {f"/data/{number:0100d}": number % 3 > 0 for number in range(5_000)}
    children = {f"/children/{number:0100d}" for number in range(5_000)}
    requests = list(set_watches(7, data, children))
    assert all(len(request.serialize()) < 200_000 for request in requests)
    assert {request.zxid for request in requests} == {7}
    assert sorted(path for request in requests for path in request.child) == sorted(children)
    found = {path: True for request in requests for path in request.data}
    found.update({path: False for request in requests for path in request.exist})
    assert found == data
