"""Requests and answers: each request is answered once, agents are served in turn, also after kills."""

from __future__ import annotations

import threading
import time
from multiprocessing.connection import Connection

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fork_servers import env_context
from veldt.exchange.inference import InferenceEdge, InferenceSpec, RequestBatch
from veldt.runtime.processes import Child
from veldt.runtime.shared import Layout

PROCESSES, WIDTH = 2, 3
SPEC = InferenceSpec(
    {"number": Layout((50,), "int64")},
    {"twice": Layout((50,), "int64"), "version": Layout((), "int64")},
    PROCESSES,
    WIDTH,
)


def ask(pipe: Connection, edge: InferenceEdge, process: int, begin: int) -> None:
    """Agents that ask for the doubles of numbers, each by itself, and check them; says when each had a hundred."""
    client = edge.client(process)
    number_W = begin + 1000 * np.arange(WIDTH)
    client.requests["number"][:] = number_W[:, None]
    client.request(np.arange(WIDTH))
    done_W = np.zeros(WIDTH, int)
    while True:
        for agent in client.answered(30.0).tolist():
            assert (client.answers["twice"][agent] == 2 * number_W[agent]).all()
            number_W[agent] += 1
            done_W[agent] += 1
            client.requests["number"][agent] = number_W[agent]
            client.request(np.array([agent]))
            if done_W[agent] == 100:
                pipe.send_bytes(b"%d" % agent)


def serve(
    edge: InferenceEdge, stop: threading.Event, most: int = 4, threads: int = 2
) -> list[threading.Thread]:
    server = edge.server()

    def turns() -> None:
        while not stop.is_set():
            requests = server.take(most, 0.05)
            if requests is not None:
                assert len(set(requests.agent_R.tolist())) == len(requests.agent_R) <= most
                server.answers["twice"][requests.agent_R] = 2 * server.requests["number"][requests.agent_R]
                server.reply(requests)

    started = [threading.Thread(target=turns, daemon=True) for _ in range(threads)]
    for thread in started:
        thread.start()
    return started


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "take", "reply", "hear", "reborn", "new server"]), st.integers(0, 5)
        ),
        max_size=60,
    ),
    st.integers(1, 6),
)
def test_requests_and_answers_against_a_list(events: list[tuple[str, int]], most: int) -> None:
    edge = InferenceEdge(SPEC, env_context())
    clients, server = [edge.client(process) for process in range(PROCESSES)], edge.server()
    asked: dict[int, int] = {}  # by agent, what it asks for
    under_way: list[tuple[RequestBatch, dict[int, int]]] = []  # and what each was asked for when it was taken
    answered: dict[int, int] = {}
    next_number = 0
    for event, which in events:
        process, agent = divmod(which, WIDTH)
        if event == "ask" and which not in asked:
            answered.pop(which, None)
            next_number += 1
            clients[process].requests["number"][agent] = asked[which] = next_number
            clients[process].request(np.array([agent]))
        elif event == "take":
            busy = {one for requests, _ in under_way for one in requests.agent_R.tolist()}
            taken_already = {one for _, numbers in under_way for one in numbers}
            open_ones = sorted(set(asked) - set(answered) - busy - taken_already)
            requests = server.take(most, 0.0)
            if requests is None:
                assert not open_ones
            else:
                taken = requests.agent_R.tolist()
                assert len(taken) == min(most, len(open_ones)) and set(taken) <= set(open_ones)
                under_way.append((requests, {one: asked[one] for one in taken}))
        elif event == "reply" and under_way:
            requests, numbers = under_way.pop(which % len(under_way))
            for one, number in numbers.items():
                server.answers["twice"][one] = 2 * number
                if asked.get(one) == number:
                    answered[one] = number
            server.reply(requests)
        elif event == "hear":
            mine = {one for one in answered if one // WIDTH == process}
            heard = {process * WIDTH + int(one) for one in clients[process].answered(0.0)}
            assert heard == mine
            for one in heard:
                local = one - process * WIDTH
                assert (clients[process].answers["twice"][local] == 2 * asked[one]).all()
                del asked[one], answered[one]
        elif event == "reborn":
            # What the life before asked for is answered to nobody, whenever that is.
            clients[process] = edge.client(process)
            assert not len(clients[process].answered(0.0))
            for one in [one for one in asked if one // WIDTH == process]:
                next_number += 1
                clients[process].requests["number"][one - process * WIDTH] = asked[one] = next_number
                clients[process].request(np.array([one - process * WIDTH]))
                answered.pop(one, None)
        elif event == "new server":
            server, under_way = edge.server(), []  # finds what was not answered


def test_a_request_of_a_new_incarnation_waits_for_the_answer_to_the_former_one() -> None:
    """Two threads of the server would write to one place, and the older answer might come last."""
    edge = InferenceEdge(SPEC, env_context())
    server, agent = edge.server(), np.array([2])
    edge.client(0).request(agent)
    former = server.take(10, 0.0)
    reborn = edge.client(0)
    reborn.request(agent)
    assert former is not None and server.take(10, 0.0) is None
    server.reply(former)
    assert not len(reborn.answered(0.0)), "the former life's"
    requests = server.take(10, 0.0)
    assert requests is not None and requests.number_R > former.number_R
    server.reply(requests)
    assert reborn.answered(0.0).tolist() == [2]


def test_agents_are_served_in_turn_where_there_are_too_many() -> None:
    edge = InferenceEdge(SPEC, env_context())
    clients, server = [edge.client(process) for process in range(PROCESSES)], edge.server()
    for client in clients:
        client.request(np.arange(WIDTH))
    counts = np.zeros(PROCESSES * WIDTH, int)
    for _ in range(30):
        requests = server.take(2, 0.0)
        assert requests is not None
        counts[requests.agent_R] += 1
        server.reply(requests)
        for client in clients:
            again = client.answered(0.0)
            if len(again):
                client.request(again)
    assert counts.tolist() == [10] * 6
    assert (server.stats.items, server.stats.batches, server.stats.waiting) == (60, 30, 180)


def test_every_request_is_answered_once_by_several_threads_though_hosts_are_killed() -> None:
    edge = InferenceEdge(SPEC, env_context())
    stop = threading.Event()
    threads = serve(edge, stop)
    children = [
        Child(env_context(), f"process {process}", ask, edge, process, 10_000 * process)
        for process in range(PROCESSES)
    ]
    try:
        for life in range(1, 4):
            assert children[0].receive(60.0) is not None, "a hundred of an agent, each right"
            children[0].kill()
            children[0] = Child(env_context(), "process 0", ask, edge, 0, 1_000_000 * life)
        for child in children:
            agents = {child.receive(60.0) for _ in range(WIDTH)}
            assert agents == {b"0", b"1", b"2"} and child.alive()
    finally:
        for child in children:
            child.kill()
        stop.set()
        for thread in threads:
            thread.join(10)


def test_a_restarted_server_answers_open_requests() -> None:
    edge = InferenceEdge(SPEC, env_context())
    client, lost = edge.client(0), edge.server()
    client.requests["number"][1] = 21
    client.request(np.array([1]))
    assert lost.take(10, 0.0) is not None and lost.take(10, 0.0) is None
    server = edge.server()
    requests = server.take(10, 0.0)
    assert requests is not None and requests.agent_R.tolist() == [1]
    server.reply(requests)
    assert client.answered(0.0).tolist() == [1] and not len(client.answered(0.0)), "once"
    assert edge.server().take(10, 0.0) is None


def test_waiting_ends_at_its_deadline_or_when_there_is_something() -> None:
    edge = InferenceEdge(SPEC, env_context())
    begin = time.monotonic()
    assert edge.server().take(1, 0.1) is None and not len(edge.client(0).answered(0.1))
    assert 0.2 <= time.monotonic() - begin < 5
    stop = threading.Event()
    threads = serve(edge, stop)
    try:
        client = edge.client(1)
        client.request(np.arange(WIDTH))
        heard: set[int] = set()
        while len(heard) < WIDTH:
            new = client.answered(10.0)
            assert len(new)
            heard |= set(new.tolist())
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)


def test_agents_are_parked_evenly_over_hosts() -> None:
    edge = InferenceEdge(SPEC, env_context())
    clients, server = [edge.client(process) for process in range(PROCESSES)], edge.server()
    for agents in range(1, PROCESSES * WIDTH + 1):
        server.activate(agents)
        counts = [int(client.active_W.sum()) for client in clients]
        assert sum(counts) == agents and max(counts) - min(counts) <= 1


def test_a_server_may_wait_for_more_requests_while_it_has_few() -> None:
    edge = InferenceEdge(SPEC, env_context())
    clients, server = [edge.client(process) for process in range(PROCESSES)], edge.server()

    def ask_late(wait_s: float) -> threading.Thread:
        clients[0].request(np.arange(WIDTH))
        late = threading.Timer(wait_s, clients[1].request, (np.arange(WIDTH),))
        late.start()
        return late

    def taken(most: int, gather_s: float) -> int:
        requests = server.take(most, 0.0, gather_s)
        assert requests is not None
        server.reply(requests)
        return len(requests.agent_R)

    late = ask_late(0.05)
    assert taken(128, 60.0) == PROCESSES * WIDTH, "for one of each agent, and no longer"
    late.join()
    late = ask_late(0.05)
    assert taken(128, 0.0) == WIDTH, "or not at all"
    late.join()
    assert taken(WIDTH, 60.0) == WIDTH, "there is nothing to wait for"
    edge.active_1[0] = WIDTH
    clients[0].request(np.arange(WIDTH))
    assert taken(128, 60.0) == WIDTH, "the others do not act"
    clients[0].request(np.array([1]))
    assert taken(128, 0.01) == 1, "the time is over"
