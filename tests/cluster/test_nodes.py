"""Several nodes on this machine, and roles on them: some killed, some added, while they work."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psutil
import pytest
import ray
from hosted_roles import Finishing, Never, Working, fails, hangs_at_first, is_overdue, refuses, works
from ray.cluster_utils import Cluster as Nodes
from ray_clusters import private_ray

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.errors import RoleError, UsageError
from veldt.exchange.rate_limiter import RateLimiter
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.on_ray.cluster import connected, why_not_joined
from veldt.runtime.on_ray.host_process import HostPlace
from veldt.runtime.on_ray.hosts import Hosts
from veldt.runtime.on_ray.plans import HostedPlan
from veldt.runtime.on_ray.process_handle import RayProcessHandle
from veldt.runtime.on_ray.supervisor import RaySupervisor
from veldt.runtime.process_state import stopped_too_long
from veldt.runtime.role_messages import Note, Received, Restarted, RoleMessage, Started
from veldt.systems.apex.graph import apex
from veldt.systems.driver.ray_runtime import start_on_ray
from veldt.systems.planning.run_plan import make_run_plan

pytestmark = [pytest.mark.alone, pytest.mark.timeout(240)]
DEADLINE_S = 90.0
M = TypeVar("M", bound=RoleMessage)
# Ray itself gives a node half a minute.
QUICK = {"health_check_period_ms": 500, "health_check_timeout_ms": 3000, "health_check_failure_threshold": 2}
STORE = 80 * 2**20
SETTINGS = {
    "num_envs": 6,
    "actors": 3,
    "shards": 2,
    "actor_chunk": 16,
    "rate_limit_tolerance": 2000.0,
    "evaluator_share": 0.0,
    "actor_sync_interval": 20,
    "batch_size": 16,
    "training_intensity": 4.0,
    "learning_starts": 100,
    "buffer_size": 1200,
    "hidden": (16,),
    "steps": 100_000,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A head with room for a learner, two shards and an actor."""
    with private_ray():
        cluster = Nodes(
            initialize_head=True,
            head_node_args={
                "num_cpus": 4,
                "object_store_memory": STORE,
                "include_dashboard": False,
                "_system_config": QUICK,
            },
        )
        try:
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


class Running:
    def __init__(self, supervisor: RaySupervisor, rate_limiter: RateLimiter | None = None) -> None:
        self.supervisor, self.heard = supervisor, list[Received]()
        self.rate_limiter: Any = rate_limiter

    def until(self, what: str, holds: Callable[[], object]) -> None:
        end = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < end, f"not in time: {what}; {self._so_far()}"
            self.heard += self.supervisor.poll(0.05)

    def _so_far(self) -> str:
        rate_limiter, heard = (
            self.rate_limiter,
            self.heard[-20:],
        )
        if rate_limiter is None:
            return f"heard {heard}"
        counts = f"steps {rate_limiter.steps_A}, updates {rate_limiter.updates_L}, due {rate_limiter.due:g}"
        return f"{counts}, done {rate_limiter.samples}, at most {rate_limiter.max_steps}; heard {heard}"

    def of(self, kind: type[RoleMessage]) -> list[Received]:
        return [one for one in self.heard if isinstance(one.message, kind)]

    def next(self, kind: type[M], role: int = 0) -> M:
        def there() -> list[Received]:
            return [one for one in self.of(kind) if one.role == role]

        self.until(kind.kind, there)
        found = there()[0]
        self.heard = [one for one in self.heard if one is not found]
        assert isinstance(found.message, kind)
        return found.message


@contextmanager
def supervised(nodes: Nodes, *plans: HostedPlan, is_own: bool = False) -> Iterator[Running]:
    with connected(nodes.address):
        supervisor = RaySupervisor(plans, Hosts(is_own=is_own))
        supervisor.start()
        try:
            yield Running(supervisor)
        finally:
            supervisor.kill()


@contextmanager
def training(nodes: Nodes) -> Iterator[Running]:
    config = with_settings(find("apex-dqn").config("CartPole-v1", None), SETTINGS)
    run_plan = make_run_plan(RunRequest(config, resolve("CartPole-v1")))
    with connected(nodes.address) as cluster:
        supervisor, edges = start_on_ray(cluster, apex(run_plan))
        supervisor.start()
        try:
            yield Running(supervisor, edges["rate_limiter"])
        finally:
            supervisor.kill()


# ------------------------------------------------------------------------------------------ the supervisor


def plan(
    role: Callable[..., None], *arguments: Any, max_restarts: int = 0, deadline_s: float = 30.0
) -> HostedPlan:
    return HostedPlan(role.__name__, role, arguments, max_restarts, deadline_s)


def test_messages_of_roles_arrive_and_roles_are_restarted_and_end_on_request(nodes: Nodes) -> None:
    plans = (
        plan(works, "a", max_restarts=3),
        plan(works, "b"),
        plan(hangs_at_first, max_restarts=1, deadline_s=2.0),
    )
    with supervised(nodes, *plans) as run:
        for role, task in ((0, "a"), (1, "b")):
            said = run.next(Working, role)
            assert (said.attempt.tolist(), said.task, said.peers) == ([0], task, [role, 2])
        pid = run.next(Started, 0).pid
        assert psutil.Process(pid).name() == "works"
        os.kill(pid, signal.SIGKILL)
        lost = run.next(Restarted, 0)
        assert lost.name == "works" and "died" in lost.why
        again = run.next(Working, 0)
        assert (again.attempt.tolist(), again.task, again.peers) == ([1], "a", [0, 2])
        os.kill(run.next(Started, 0).pid, signal.SIGSTOP)
        lost = run.next(Restarted, 2)
        assert lost.why == "sent no heartbeat for 2 s" and "hangs_at_first" in lost.details
        again = run.next(Working, 2)
        assert (again.attempt.tolist(), again.task, again.peers) == ([1], "again", [0, 1])
        last = run.supervisor.stop(5.0)
        assert sum(isinstance(one.message, Finishing) for one in last) == 2
    run.supervisor.kill()


@pytest.mark.long
def test_roles_know_how_many_like_them_are_on_their_machine(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also roles that are placed first."""
    node_of = property(lambda life: life.where.node)
    monkeypatch.setattr(RayProcessHandle, "machine", node_of)  # all nodes of these tests are on one
    added = nodes.add_node(num_cpus=2, object_store_memory=STORE)
    plans = [plan(works, "a")] * 5 + [plan(hangs_at_first, deadline_s=60.0)]
    with supervised(nodes, *plans) as run:
        run.until("all at work", lambda: len(run.of(Working)) == 5)
        on = Counter(handle.machine for handle in run.supervisor._handles.values() if handle.number < 5)
        assert sorted(on.values()) in ([1, 4], [2, 3])
        heard = sorted(tuple(message.message.peers) for message in run.of(Working))
        assert heard == sorted((index, count) for count in on.values() for index in range(count))
    nodes.remove_node(added, allow_graceful=False)


@pytest.mark.long
def test_a_stopped_process_counts_as_hung_and_is_killed(nodes: Nodes) -> None:
    with supervised(nodes, plan(works, "a", max_restarts=1, deadline_s=2.0)) as run:
        pid = run.next(Started).pid
        run.next(Working)
        os.kill(pid, signal.SIGSTOP)
        assert run.next(Restarted).why == "sent no heartbeat for 2 s"
        assert run.next(Working).attempt.tolist() == [1]
        run.until("the old one gone", lambda: not psutil.pid_exists(pid))


@pytest.mark.long
def test_a_stopped_process_is_seen_before_it_misses_its_deadline(nodes: Nodes) -> None:
    """On this node, and on another, where a task looks at it and ends it."""
    added = nodes.add_node(num_cpus=1, object_store_memory=STORE)
    with supervised(nodes, *[plan(works, "a", max_restarts=2, deadline_s=1000.0)] * 5) as run:
        run.until("all at work", lambda: len(run.of(Working)) == 5)
        here = ray.get_runtime_context().get_node_id()
        places = [(handle.number, handle.where) for handle in run.supervisor._handles.values()]
        is_here = [place.node == here for _, place in places if place is not None]
        assert Counter(is_here) == {True: 4, False: 1}
        stopped = [places[is_here.index(True)], places[is_here.index(False)]]
        for _, place in stopped:
            assert place is not None
            os.kill(place.pid, signal.SIGSTOP)
        for number, place in stopped:
            assert run.next(Restarted, number).why == stopped_too_long()
            run.until(
                "at work again", lambda n=number: len([one for one in run.of(Working) if one.role == n]) == 2
            )
            run.until("the old one gone", lambda p=place: not psutil.pid_exists(p.pid))
    nodes.remove_node(added, allow_graceful=False)


def _whole_reserve(run: Running) -> list[HostPlace]:
    """Waits until the reserve is whole and has loaded everything; returns where its hosts are, in their order."""
    reserve = run.supervisor._hosts._reserve
    run.until("the reserve", lambda: len(reserve) == 2 and not any(spare.is_loading for spare in reserve))
    return [ray.get(spare.place) for spare in reserve]


@pytest.mark.long
def test_roles_are_restarted_in_hosts_of_a_reserve(nodes: Nodes) -> None:
    """On a run's own Ray, from the first restart on. A host of the reserve that was killed or stopped gets no role."""
    with supervised(nodes, plan(works, "a", max_restarts=9), is_own=True) as run:
        pid = run.next(Started).pid
        assert not run.supervisor._hosts._reserve
        os.kill(pid, signal.SIGKILL)
        run.next(Restarted)
        pid = run.next(Started).pid
        for hurt in (0, signal.SIGKILL, signal.SIGSTOP):
            first, second = _whole_reserve(run)
            os.kill(first.pid, hurt)
            run.until("hurt", lambda h=hurt, p=first.pid: not h or _is_hurt(p))
            os.kill(pid, signal.SIGKILL)
            run.next(Restarted)
            pid = run.next(Started).pid
            assert pid == (second if hurt else first).pid
        run.until("the stopped one gone", lambda: not psutil.pid_exists(first.pid))


def _is_hurt(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() in ("stopped", "zombie")


@pytest.mark.long
def test_a_process_that_does_not_start_is_tried_again(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's own Ray has room for all roles: no other one is stopped for it."""
    monkeypatch.setattr("veldt.runtime.on_ray.supervisor._PROCESS_S", 5.0)
    without_gpu = HostedPlan("needs a GPU", works, ("a",), 1, gpus=1)
    optional = HostedPlan("works", works, ("b",), 0, is_needed=False)
    with supervised(nodes, without_gpu, optional, is_own=True) as run:
        assert run.next(Restarted).why == "did not start within 5 s"
        with pytest.raises(
            RoleError, match=r"^the needs a GPU did not start within 5 s once more, after 1 restart"
        ):
            run.next(Never)
        assert run.of(Working) and not run.of(Note)


@pytest.mark.long
@pytest.mark.parametrize(
    ("role", "restarts", "message", "line"),
    [
        (fails, 0, r"^the fails failed \(ValueError: two and two are five\)$", "raise"),
        (fails, 2, r"five\) once more, after 2 restarts", "raise"),
        (refuses, 5, r"^the refuses failed \(it cannot be\)$", "raise"),
        (is_overdue, 1, r"^the is_overdue failed \(the answer is overdue\)$", "time.sleep(1000)"),
    ],
)
def test_errors_end_the_run_when_the_budget_is_used_up(
    role: Callable[..., None], restarts: int, message: str, line: str, nodes: Nodes
) -> None:
    with supervised(nodes, plan(works, "a"), plan(role, max_restarts=restarts)) as run:
        with pytest.raises(RoleError, match=message) as error:
            run.next(Never)
        assert line in error.value.details


# ------------------------------------------------------------------------------------------------ training


@pytest.mark.long
def test_learning_continues_when_roles_are_killed(nodes: Nodes) -> None:
    """On four CPUs only one of three actors has room."""
    with training(nodes) as run:
        run.until("learning", lambda: run.rate_limiter.updates_L[0] >= 20)
        assert (run.rate_limiter.steps_A > 0).sum() == 1
        rate_limiter = run.rate_limiter
        for role in (0, 1, 3):  # the learner, a shard, an actor
            before = run.rate_limiter.steps_A.sum(), int(run.rate_limiter.updates_L[0])
            os.kill(run.next(Started, role).pid, signal.SIGKILL)
            run.next(Restarted, role)
            run.next(Started, role)
            run.until("acting again", lambda b=before: run.rate_limiter.steps_A.sum() > b[0] + 100)
            run.until("learning again", lambda b=before: run.rate_limiter.updates_L[0] > b[1] + 20)
        assert rate_limiter.due <= rate_limiter.samples + 2000 + 4.0 * 16 * 6
        run.until("who waits to be said", lambda: run.of(Note))
        assert (
            "actor 1, actor 2 without room: the cluster has 4 CPUs (0 free)" in run.of(Note)[0].message.text
        )


@pytest.mark.long
def test_actors_join_with_nodes_and_go_with_them(nodes: Nodes) -> None:
    with training(nodes) as run:
        run.until("learning", lambda: run.rate_limiter.updates_L[0] >= 20)
        added = [nodes.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(2)]
        run.until("all actors", lambda: bool((run.rate_limiter.steps_A > 0).all()))
        pids = {message.role: message.message.pid for message in run.of(Started)}
        assert {3, 4, 5} <= pids.keys()
        nodes.remove_node(added[0], allow_graceful=False)
        run.until("a loss", lambda: run.of(Restarted))
        (lost,) = run.of(Restarted)
        assert lost.role in (4, 5) and "lost with its node" in lost.message.why
        before = run.rate_limiter.steps_A.copy(), int(run.rate_limiter.updates_L[0])
        run.until("learning goes on", lambda: run.rate_limiter.updates_L[0] >= before[1] + 50)
        added.append(nodes.add_node(num_cpus=1, object_store_memory=STORE))
        run.until("all actors again", lambda: bool((run.rate_limiter.steps_A > before[0]).all()))
        for node in added[1:]:
            nodes.remove_node(node, allow_graceful=False)


@pytest.mark.long
def test_settings_that_a_cluster_cannot_run_are_refused(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_settings(find("apex-dqn").config("CartPole-v1", None), SETTINGS | {"shards": 3})
    graph = apex(make_run_plan(RunRequest(config, resolve("CartPole-v1"))))
    with connected(nodes.address) as cluster:
        end = time.monotonic() + DEADLINE_S
        while cluster.resources()["CPU"] != 4:  # nodes of other tests are on their way out
            assert time.monotonic() < end
            time.sleep(0.1)
        few = r"has 4 CPUs, and this run needs 5 at least, one for each of 1 x learner \+ 3 x replay \+ 1 x actor: add"
        with pytest.raises(UsageError, match=few):
            start_on_ray(cluster, graph)
    with monkeypatch.context() as patch:
        patch.setattr("veldt.runtime.on_ray.supervisor._ROOM_S", 5.0)
        plans = [plan(works, "a")] * 5
        with (
            supervised(nodes, *plans) as run,
            pytest.raises(RoleError, match="no node of the cluster has had room"),
        ):
            run.next(Never)
    monkeypatch.setattr("veldt.runtime.on_ray.process_handle.installed", lambda: "9.9")
    message = (
        r"^node \S+ of the cluster has veldt \S+, and this process has 9.9: install the same version on all"
    )
    with supervised(nodes, plan(works, "a")) as run, pytest.raises(UsageError, match=message):
        run.next(Never)


@pytest.mark.long
def test_another_version_and_another_token_are_explained(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray._private.utils import check_version_info

    with pytest.raises(RuntimeError) as caught:
        check_version_info({"ray_version": "2.1.0", "python_version": "3.8.1"}, "this")
    text = why_not_joined("1.2.3.4:6379", f"RuntimeError: {caught.value}")
    assert text.startswith(
        "the cluster at 1.2.3.4:6379 runs Ray 2.1.0 on Python 3.8.1, and this process Ray 2."
    )
    assert "pip install ray==2.1.0 with Python 3.8.1" in text
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    monkeypatch.setattr("veldt.runtime.on_ray.cluster._JOIN_S", 6.0)
    with pytest.raises(UsageError, match="does not let this process in"), connected(nodes.address):
        pass


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with (
        pytest.raises(UsageError, match=r"Ray, which is not installed here: pip install 'veldt\[cluster\]'$"),
        connected("local"),
    ):
        pass
