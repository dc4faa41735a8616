"""The connections to Redis: borrowing one, sending commands, and recovering from a dead one.

A command that was not sent completely was not executed, so it may always be sent again. If it was sent and the answer
is lost, its effect is unknown; then only a repeatable command is sent once more. A connection never crosses a fork: a
child starts with none.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias
from weakref import WeakSet

import redis
from redis.exceptions import ConnectionError, NoScriptError, RedisClusterException, ResponseError, TimeoutError

from headrace.engines.redis.errors import refuses_only_writes, translated
from headrace.engines.redis.script_loader import Script
from headrace.engines.redis.store_url import RedisUrl
from headrace.engines.redis.topology import Connection, Topology
from headrace.engines.shared.circuit_breaker import CircuitBreaker
from headrace.errors import EngineUnavailable

Value: TypeAlias = "str | bytes | int"
_CONNECTION_ERRORS = (ConnectionError, TimeoutError, OSError)
_OTHER_SERVER = re.compile(
    r"(ReadOnly|Moved|Ask|TryAgain|ClusterDown)Error |\w+ (MOVED|ASK|TRYAGAIN|CLUSTERDOWN) |.*\bREADONLY\b", re.DOTALL
)


class RedisConnections:
    """All connections of one engine in one process."""

    def __init__(self, address: RedisUrl) -> None:
        self.address = address
        self._tag = f"{{{address.prefix}}}"
        self._topology = Topology(address, self._tag)
        self._reset()
        _all_connections.add(self)

    def _reset(self) -> None:
        self._idle: deque[Connection] = deque()
        self._free_slots = threading.BoundedSemaphore(self.address.max_connections)
        self._breaker = CircuitBreaker()

    # -- commands

    def run(self, script: Script, *args: Value, repeat: Sequence[Value] | None = None) -> Any:
        """The script's answer. `repeat` are the arguments for a second try if the answer to the first is lost."""
        call = ("EVALSHA", script.sha, 1, self._tag)
        return self._send((*call, *args), None if repeat is None else (*call, *repeat), script)

    def command(self, *command: Value) -> Any:
        """The answer to a repeatable command."""
        return self._send(command, command)

    def connect(self) -> Connection:
        """A new connection that belongs to the caller."""
        connection = self._topology.connection()
        try:
            connection.connect()
        except BaseException:
            connection.disconnect()
            self._topology.lost()
            raise
        return connection

    def _send(self, command: Sequence[Value], repeat: Sequence[Value] | None, script: Script | None = None) -> Any:
        self._breaker.check()
        try:
            answer = self._send_twice(command, repeat, script)
        except UnicodeEncodeError:
            self._breaker.succeeded()
            raise
        except (redis.RedisError, RedisClusterException, OSError) as error:
            mapped = translated(error, self.address.shown, self.address.prefix)
            if refuses_only_writes(error):
                self._breaker.succeeded()
            elif isinstance(mapped, EngineUnavailable):
                self._breaker.failed(str(mapped))
            if mapped is error:
                raise
            raise mapped from error
        self._breaker.succeeded()
        return answer

    def _send_twice(self, command: Sequence[Value], repeat: Sequence[Value] | None, script: Script | None) -> Any:
        try:
            return self._send_once(command, script)
        except _Unsent as unsent:
            again = command
            first = unsent.cause
        except _CONNECTION_ERRORS as error:
            if repeat is None:
                raise
            again, first = repeat, error
        self._close_idle()  # the other idle connections are probably lost, too
        self._topology.lost()
        try:
            return self._send_once(again, script)
        except _Unsent as unsent:
            raise unsent.cause from first

    def _send_once(self, command: Sequence[Value], script: Script | None) -> Any:
        if not self._free_slots.acquire(timeout=self.address.timeout):
            raise EngineUnavailable(
                f"{self.address.shown}: all {self.address.max_connections} connections are in use; ?max_connections= "
                "allows more"
            )
        try:
            return self._exchange(self._borrow(), command)
        except NoScriptError:
            if script is None:
                raise
            # The server does not have the script, after a restart or SCRIPT FLUSH: send it, with the arguments of this
            # try.
            return self._exchange(self._borrow(), ("EVAL", script.text, *command[2:]))
        finally:
            self._free_slots.release()

    def _exchange(self, connection: Connection, command: Sequence[Value]) -> Any:
        usable = False
        try:
            packed = connection.pack_command(*command)
            try:
                connection.send_packed_command(packed)
            except _CONNECTION_ERRORS as error:
                raise _Unsent(error) from error
            answer = connection.read_response()
            usable = True
            return answer
        except ResponseError as error:
            if _needs_other_server(error):
                raise _Unsent(error) from error
            usable = True
            raise
        except UnicodeEncodeError:
            usable = True
            raise
        finally:
            if usable:
                self._idle.append(connection)
            else:
                connection.disconnect()

    # -- connections

    def _borrow(self) -> Connection:
        with contextlib.suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if _is_usable(connection):
                    return connection
                connection.disconnect()
        try:
            return self.connect()
        except _CONNECTION_ERRORS as error:
            raise _Unsent(error) from error

    def _close_idle(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().disconnect()

    def reset_after_fork(self) -> None:
        """In a forked child: leave the connections to the parent."""
        inherited = self._idle
        self._reset()
        for connection in inherited:
            connection.disconnect()  # closes our copy only: the client sees by the pid that the parent uses it

    def close(self) -> None:
        """Close idle connections; the next command opens one again."""
        self._close_idle()


_all_connections: WeakSet[RedisConnections] = WeakSet()


def _start_all_afresh() -> None:
    for connections in list(_all_connections):
        connections.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_afresh)


class _Unsent(Exception):
    """The command did not reach the server completely, or not the server that can execute it."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _needs_other_server(error: Exception) -> bool:
    """Whether the command must go to another server."""
    return _OTHER_SERVER.match(f"{type(error).__name__} {error}") is not None


def _is_usable(connection: Connection) -> bool:
    """Whether an idle connection is still good. One with data to read was closed by the server."""
    try:
        return not connection.can_read(0)
    except _CONNECTION_ERRORS:
        return False
