"""Every public method of the loop takes what the running CPython's takes, under the same names, and
every method of uvloop.Loop is there."""
from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import ringloop

STOCK = asyncio.SelectorEventLoop
PUBLIC = sorted(name for name in dir(asyncio.AbstractEventLoop) if not name.startswith("_"))
# uvloop.Loop 0.23.0: public names of its own or of its base, beyond asyncio's.
UVLOOP = ("print_debug_info",)
UVLOOP_SHARED = """
add_reader add_signal_handler add_writer call_at call_exception_handler call_later call_soon
call_soon_threadsafe close connect_accepted_socket connect_read_pipe connect_write_pipe
create_connection create_datagram_endpoint create_future create_server create_task
create_unix_connection create_unix_server default_exception_handler get_debug
get_exception_handler get_task_factory getaddrinfo getnameinfo is_closed is_running remove_reader
remove_signal_handler remove_writer run_forever run_in_executor run_until_complete sendfile
set_debug set_default_executor set_exception_handler set_task_factory shutdown_asyncgens
shutdown_default_executor slow_callback_duration sock_accept sock_connect sock_recv sock_recv_into
sock_recvfrom sock_recvfrom_into sock_sendall sock_sendfile sock_sendto start_tls stop
subprocess_exec subprocess_shell time
""".split()


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = list(inspect.signature(function).parameters.values())
    assert found[0].name == "self"  # positional-only in native methods, and never named anyway
    return [(each.name, each.kind, each.default) for each in found[1:]]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_method_takes_what_the_running_pythons_takes(name: str) -> None:
    assert parameters(getattr(ringloop.EventLoop, name)) == parameters(getattr(STOCK, name))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_method_says_what_it_does(name: str) -> None:
    assert inspect.getdoc(getattr(ringloop.EventLoop, name)) or not inspect.getdoc(
        getattr(STOCK, name)
    )


def test_everything_of_uvloops_loop_is_there(loop: Any) -> None:
    assert [name for name in (*UVLOOP, *UVLOOP_SHARED) if not hasattr(loop, name)] == []


def test_everything_of_the_installed_uvloops_loop_is_there(loop: Any) -> None:
    uvloop = pytest.importorskip("uvloop")
    names = [name for name in dir(uvloop.Loop) if not name.startswith("_")]
    assert [name for name in names if not hasattr(loop, name)] == []


def test_debug_info_counts_handles_and_operations(loop: Any, capfd: Any) -> None:
    handle = loop.call_later(60, print)
    loop.print_debug_info()
    told = capfd.readouterr().err
    for word in ("EventLoop", "handles: 1", "in_flight", "submitted"):
        assert word in told
    handle.cancel()
    loop.close()
    loop.print_debug_info()
    assert "closed=True" in capfd.readouterr().err
