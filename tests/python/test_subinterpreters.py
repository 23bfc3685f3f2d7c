"""Extension modules of ours in subinterpreters: one clear ImportError, in every kind and order, and
the main interpreter goes on, also to its end. (The package alone: test_loop_guests.py.)"""
from __future__ import annotations

import subprocess
import sys

import pytest

from harness import extensions
from harness.commands import without_slow_steps

pytestmark = pytest.mark.skipif(not extensions.FOLDER.is_dir(),
                                reason="no extension modules beside this package")

# Under 3.11 any module of pybind11's hangs in a subinterpreter, before anything of ours runs: it
# takes the GIL for a thread state of the main interpreter, by the thread that holds it.
BINDERS = ("bridge_calls_nanobind", *(("bridge_ends",) if sys.version_info >= (3, 12) else ()))

AROUND = f"""
BINDERS = {BINDERS}
""" + """
import asyncio, sys, threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def create(isolated):
    if sys.version_info >= (3, 13):
        return interpreters.create("isolated" if isolated else "legacy")
    return interpreters.create(isolated=isolated)

def inside(interpreter, text):
    text = "import sys\\nsys.path[:] = %r\\nBINDERS = %r\\n" % (sys.path, BINDERS) + text
    failure = interpreters.run_string(interpreter, text)
    assert failure is None, failure

REFUSED = '''
for name in (*BINDERS, "ringloop", *BINDERS):
    try:
        __import__(name)
    except ImportError as error:
        assert "interpreter" in str(error), error
    else:
        raise SystemError("it was imported")
'''

async def works():
    import bridge_ends
    assert await bridge_ends.sleeps(10) == 10
    assert await bridge_ends.offloads(10) == 10
    assert [each async for each in bridge_ends.numbers(2, 0)] == [0, 1]
"""


def run(text: str) -> subprocess.CompletedProcess[str]:
    program = f"import sys\nsys.path.append({str(extensions.FOLDER)!r})\n{AROUND}\n{text}"
    quiet = ("-W", "ignore::DeprecationWarning", "-W", "ignore::ResourceWarning")
    return subprocess.run([sys.executable, *quiet, "-c", program],
                          capture_output=True, text=True, timeout=60, check=False)


def check(text: str) -> None:
    done = run(text)
    told = without_slow_steps(done.stderr)
    assert (done.returncode, done.stdout, told) == (0, "fine\n", ""), done


@pytest.mark.parametrize("first", ["", "asyncio.run(works())\n"], ids=["sub", "main"])
def test_an_extension_is_refused_with_a_sentence(first: str) -> None:
    """Whether the main interpreter has it already or not."""
    check(first + """
for isolated in (True, False):
    made = create(isolated)
    inside(made, REFUSED)
    interpreters.destroy(made)
    asyncio.run(works())
import ringloop
ringloop.run(works())
print("fine")
""")


def test_the_main_loop_goes_on_beside_a_subinterpreter() -> None:
    check("""
import ringloop
made = [create(True), create(False)]

def refuse():
    for _ in range(5):
        for each in made:
            inside(each, REFUSED)

async def main():
    thread = threading.Thread(target=refuse)
    thread.start()
    while thread.is_alive():
        await works()
    thread.join()

for each in (ringloop.new_event_loop, asyncio.new_event_loop):
    ringloop.run(main(), loop_factory=each)
for each in made:
    interpreters.destroy(each)
print("fine")
""")


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "legacy"])
def test_an_exit_with_a_subinterpreter_alive_is_as_without_us(isolated: bool) -> None:
    """With native work in flight, and a loop that nobody has closed."""
    alone = run(f"""
made = create({isolated})
inside(made, "import asyncio")
print("fine")
""")
    ours = run(f"""
import bridge_ends, ringloop
loop = ringloop.new_event_loop()
loop.set_exception_handler(lambda *_: None)

async def begin():
    kept.extend(map(asyncio.ensure_future, (bridge_ends.sleeps(2_000_000_000),
                                            bridge_ends.offloads(100_000))))
    await asyncio.sleep(0.001)

kept = []
loop.run_until_complete(begin())
made = create({isolated})
inside(made, REFUSED)
print("fine")
""")
    assert (ours.returncode, ours.stdout) == (alone.returncode, alone.stdout), ours
    assert without_slow_steps(ours.stderr) == alone.stderr


def test_objects_that_come_there_say_so_when_they_are_awaited() -> None:
    """CPython gives subinterpreters a copy of a module that can be initialised only once.
    Awaitables of such a module got a loop there."""
    pytest.importorskip("_testcapi")
    check("""
import _testcapi, bridge_ends
made = bridge_ends.sleeps(10)
inside_ = '''
import asyncio, ctypes
made = ctypes.cast(%d, ctypes.py_object).value

async def main():
    try:
        await made
    except RuntimeError as error:
        assert "main interpreter" in str(error), error
    else:
        raise SystemError("it ran")

asyncio.run(main())
'''
assert _testcapi.run_in_subinterp(inside_ % id(made)) == 0
made.close()
print("fine")
""")
