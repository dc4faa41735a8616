"""Redis in all the ways it is run: behind a socket, with users, in a cluster, watched by a sentinel, over TLS."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from headrace.core.jobs.states import State
from headrace.engines.redis.engine import RedisEngine
from headrace.errors import ConfigError, EngineUnavailable
from tests.conformance.redis.servers import OwnRedis
from tests.support.builders import EVERYTHING, NOW, claim_one, new_job, row, settle, succeed
from tests.support.waiting import PATIENCE, eventually


@contextmanager
def opened(url: str) -> Iterator[RedisEngine]:
    engine = RedisEngine(url)
    try:
        yield engine
    finally:
        engine.close()


def a_job_passes_through(engine: RedisEngine, job_id: str = "job") -> None:
    """A job's whole life, and a bell for it."""
    bell = engine.listen("done")
    engine.insert([new_job(job_id)], now=NOW)
    assert settle(engine, succeed(claim_one(engine))) == []
    assert bell.wait(PATIENCE)
    assert row(engine, job_id).state is State.COMPLETED
    bell.close()


# -- sockets and users


@pytest.mark.parametrize("scheme", ["unix", "redis+unix"])
def test_a_socket_of_this_host_and_a_database_of_its_own(scheme: str) -> None:
    with OwnRedis("unixsocket {folder}/r.sock") as server:
        with opened(f"{scheme}://{server.folder}/r.sock?db=3") as engine:
            a_job_passes_through(engine)
        assert server.client.info("keyspace")["db3"]["keys"] > 0
        assert "db0" not in server.client.info("keyspace")


RULES = "~{headrace}* &{headrace}:bell +@read +@write +@scripting +@pubsub +@connection +time +info"


def test_a_user_needs_no_more_than_the_rights_that_an_error_names() -> None:
    with OwnRedis(f"user anna on >secret resetchannels {RULES}") as server:
        with opened(f"redis://anna:secret@127.0.0.1:{server.port}/0") as engine:
            a_job_passes_through(engine)
            assert engine.reap(10, now=NOW) == []
            assert any("CONFIG GET is not allowed" in finding for finding in map(str, engine.maintenance.inspect(NOW)))
            assert "secret" not in engine.url
        with opened(f"redis://anna:secret@127.0.0.1:{server.port}/0?prefix=other") as engine:
            with pytest.raises(ConfigError) as caught:
                engine.insert([new_job("job")], now=NOW)
            for rule in RULES.replace("headrace", "other").split():
                assert rule in str(caught.value)


def test_who_may_not_publish_is_told_before_anything_is_stored() -> None:
    rules = RULES.replace("&{headrace}:bell", "resetchannels")
    with OwnRedis(f"user anna on >secret {rules}") as server:
        url = f"redis://anna:secret@127.0.0.1:{server.port}/0"
        with opened(url) as engine, pytest.raises(ConfigError, match="bell"):
            engine.insert([new_job("job")], now=NOW)
        assert server.client.keys() == []


@pytest.mark.parametrize("login", ["anna:wrong", "nobody:secret", ":secret"])
def test_a_wrong_login_is_a_wrong_setting_and_stays_secret(login: str) -> None:
    with OwnRedis("user anna on >secret +@all ~*") as server:
        url = f"redis://{login}@127.0.0.1:{server.port}/0"
        with opened(url) as engine, pytest.raises(ConfigError, match="password") as caught:
            engine.insert([new_job("job")], now=NOW)
        assert login.partition(":")[2] not in str(caught.value)


# -- a cluster


@pytest.fixture
def cluster() -> Iterator[list[OwnRedis]]:
    with ExitStack() as at_end:
        nodes = [at_end.enter_context(OwnRedis("cluster-enabled yes", "cluster-config-file nodes.conf")) for _ in "abc"]
        shares = [range(5461), range(5461, 10923), range(10923, 16384)]
        for node, slots in zip(nodes, shares, strict=True):
            node.client.execute_command("CLUSTER", "ADDSLOTS", *slots)
        for node in nodes[1:]:
            nodes[0].client.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port)
        eventually(lambda: all(b"cluster_state:ok" in node.client.execute_command("CLUSTER", "INFO") for node in nodes))
        eventually(lambda: all(len(node.client.execute_command("CLUSTER", "SLOTS")) == 3 for node in nodes))
        yield nodes


@pytest.mark.slow
def test_a_store_is_on_the_node_that_holds_its_slot_whichever_is_asked(cluster: list[OwnRedis]) -> None:
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in cluster)
    holders = set()
    for prefix in ("a", "b", "c", "d", "e"):
        with opened(f"redis+cluster://{hosts}?prefix={prefix}") as engine:
            a_job_passes_through(engine)
            assert engine.maintenance.inspect(NOW) == []
        holders |= {node.port for node in cluster if node.client.keys(f"{{{prefix}}}*")}
    assert len(holders) > 1


@pytest.mark.slow
def test_a_slot_that_moved_to_another_node_is_found_there(cluster: list[OwnRedis]) -> None:
    with opened(f"redis+cluster://127.0.0.1:{cluster[0].port}") as engine:
        bell = engine.listen("work")
        engine.insert([new_job("job")], now=NOW)
        slot = cluster[0].client.execute_command("CLUSTER", "KEYSLOT", "{headrace}")
        source = next(node for node in cluster if node.client.keys())
        target = next(node for node in cluster if node is not source)
        move_slot(cluster, slot, source, target)
        assert bell.wait(PATIENCE)
        engine.insert([new_job("after")], now=NOW)
        assert engine.queries.count(EVERYTHING).jobs == 2
        assert source.client.keys() == []
        bell.close()


def move_slot(cluster: list[OwnRedis], slot: int, source: OwnRedis, target: OwnRedis) -> None:
    name = {node.port: node.client.execute_command("CLUSTER", "MYID") for node in cluster}
    target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", name[source.port])
    source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", name[target.port])
    keys = source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000)
    source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    for node in (target, source, *cluster):
        node.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", name[target.port])


# -- a sentinel


@pytest.mark.slow
def test_after_a_failover_the_new_master_is_found() -> None:
    with ExitStack() as at_end:
        first = at_end.enter_context(OwnRedis())
        second = at_end.enter_context(OwnRedis(f"replicaof 127.0.0.1 {first.port}", "appendonly no"))
        eventually(lambda: second.client.info("replication")["master_link_status"] == "up")
        watcher = at_end.enter_context(OwnRedis(f"sentinel monitor jobs 127.0.0.1 {first.port} 1", sentinel=True))
        eventually(lambda: watcher.client.execute_command("SENTINEL", "REPLICAS", "jobs"))
        with opened(f"redis+sentinel://127.0.0.1:{watcher.port}/jobs/0") as engine:
            a_job_passes_through(engine, "before")
            eventually(lambda: second.client.hlen("{headrace}:ids") == 1)
            eventually(lambda: failed_over(watcher, second.port))
            first.kill()
            eventually(lambda: survives(engine))
            assert second.client.hlen("{headrace}:ids") == 2


def failed_over(watcher: OwnRedis, port: int) -> bool:
    with suppress(Exception):
        watcher.client.execute_command("SENTINEL", "FAILOVER", "jobs")
    return int(watcher.client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "jobs")[1]) == port


def survives(engine: RedisEngine) -> bool:
    with suppress(EngineUnavailable):
        engine.insert([new_job("after")], now=NOW)
        return True
    return False


def test_sentinels_that_are_away_or_know_no_such_service_are_an_outage() -> None:
    with OwnRedis(sentinel=True) as watcher:
        for where in (f"127.0.0.1:{watcher.port}/jobs", "127.0.0.1:1/jobs"):
            with opened(f"redis+sentinel://{where}") as engine, pytest.raises(EngineUnavailable, match="jobs"):
                engine.insert([new_job("job")], now=NOW)


# -- TLS


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key, made = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*command, "-keyout", key, "-out", made, "-days", "2", *subject], check=True, capture_output=True)
    return key, made


class TlsFront:
    """Speaks TLS in front of a server that does not."""

    def __init__(self, port: int, certificate: tuple[Path, Path]) -> None:
        self._port = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate[1], certificate[0])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._welcome, daemon=True)]
        self._threads[0].start()

    def _welcome(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                with suppress(OSError):
                    client = self._context.wrap_socket(plain, server_side=True)
                    server = socket.create_connection(("127.0.0.1", self._port))
                    self._ends += [client, server]
                    for ends in ((client, server), (server, client)):
                        self._threads.append(threading.Thread(target=_carry, args=ends, daemon=True))
                        self._threads[-1].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        for end in self._ends:
            end.close()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_over_tls_the_server_must_prove_who_it_is(certificate: tuple[Path, Path]) -> None:
    with OwnRedis() as server:
        front = TlsFront(server.port, certificate)
        with opened(f"rediss://localhost:{front.port}/0?ssl_ca_certs={certificate[1]}") as engine:
            a_job_passes_through(engine)
        with (
            opened(f"rediss://localhost:{front.port}/0") as engine,
            pytest.raises(EngineUnavailable, match="certificate"),
        ):
            engine.insert([new_job("job")], now=NOW)
        front.close()
