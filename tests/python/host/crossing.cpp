// Exceptions and values that cross between the worlds and come back. Thread: the main one.
#include <stdexcept>
#include <string>

#include "scenario.hpp"

namespace {

namespace py = rl::py;

struct mine : std::runtime_error {
    explicit mine(int number) : runtime_error("mine"), code(number) {}
    int code;
};

const mine* thrown = nullptr;
std::exception_ptr kept;

rl::task<void> fails(int code) {
    co_await rl::sleep_for(std::chrono::microseconds(10));
    try {
        throw mine(code);
    } catch (const mine& failure) {
        thrown = &failure;
        kept = std::current_exception();
        throw;
    }
}
int fails_at_once(int code) {
    throw mine(code);
}
rl::task<int> deeper(py::ref awaitable) {
    const int value = co_await py::await<int>(std::move(awaitable));
    co_return value + 1;
}

py::object native(py::interpreter& python) {
    py::object module = python.exec("native", "");
    const py::gil_scope gil;
    if (py::fast<&fails>(module.get(), "fails") < 0 ||
        py::fast<&fails_at_once>(module.get(), "fails_at_once") < 0 ||
        py::fast<&deeper>(module.get(), "deeper") < 0)
        throw py::error::take();
    return module;
}

const char* const passing_text = R"(
import asyncio, copy, pickle
async def passes(native):
    await native.fails(7)
async def looks(native):
    try:
        await native.fails(7)
    except RuntimeError as error:
        assert str(error) == 'mine', error
        assert type(pickle.loads(pickle.dumps(error))) is RuntimeError
        assert type(copy.deepcopy(error)) is RuntimeError
        raise
async def wraps(native):
    try:
        await native.fails(8)
    except RuntimeError as error:
        raise LookupError('no') from error
async def levels(native, depth):
    if depth == 0:
        await asyncio.sleep(0.001)
        return 0
    return await native.deeper(levels(native, depth - 1))
async def waits(native, depth, ends):
    try:
        if depth == 0:
            await asyncio.Event().wait()
        await native.deeper(waits(native, depth - 1, ends))
    finally:
        await asyncio.sleep(0)
        ends.append(depth)
async def cancelled_at(native, depth, level):
    ends = []
    task = asyncio.ensure_future(waits(native, depth, ends))
    await asyncio.sleep(0.005)
    # One task a level: those that native code made, in the order of their making.
    levels = sorted((t for t in asyncio.all_tasks() if t.get_coro().__name__ == 'waits'),
                    key=lambda t: t.get_coro().cr_frame.f_locals['depth'], reverse=True)
    assert len(levels) == depth + 1, levels
    levels[level].cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    return ends
)";

rl::task<void> same_object(py::interpreter& python) {
    const py::object module = native(python);
    const py::object passing = python.exec("passing", passing_text);
    for (const char* how : {"passes", "looks"}) {
        const mine* caught = nullptr;
        try {
            co_await py::await(passing.call(how, module));
        } catch (const mine& failure) {
            caught = &failure;
            CHECK(failure.code == 7);
        }
        CHECK(caught != nullptr && caught == thrown);
    }
    const mine* caught = nullptr;
    try {
        co_await py::await(passing.call("wraps", module));
    } catch (const py::error& error) {
        CHECK(error.type_name() == "LookupError");
        try {
            std::rethrow_exception(error.cause()->native());
        } catch (const mine& failure) {
            caught = &failure;
        }
    }
    CHECK(caught != nullptr && caught == thrown && caught->code == 8);
    int code = 0;
    try {
        module.call("fails_at_once", 9);
    } catch (const mine& failure) {
        code = failure.code;
    }
    CHECK(code == 9);
    kept = nullptr;
}

rl::task<void> three_levels(py::interpreter& python) {
    const py::object module = native(python);
    const py::object passing = python.exec("passing", passing_text);
    const int three = co_await py::await<int>(passing.call("levels", module, 3));
    CHECK(three == 3);
    for (int level = 0; level <= 3; ++level) {
        const auto ends =
            co_await py::await<std::vector<int>>(passing.call("cancelled_at", module, 3, level));
        CHECK(ends == std::vector<int>{0, 1, 2, 3});  // each has ended, the innermost first
    }
}

// What the app throws is what run() throws.
rl::task<void> throws(py::interpreter&) {
    co_await fails(3);
}
int app_throws(const arguments&) {
    try {
        py::run(throws);
    } catch (const mine& failure) {
        CHECK(&failure == thrown && failure.code == 3);
        kept = nullptr;
        return 0;
    }
    return 1;
}
rl::task<void> raises(py::interpreter& python) {
    python.eval("1 / 0");
    co_return;
}
int app_raises(const arguments&) {
    try {
        py::run(raises);
    } catch (const py::error& error) {
        CHECK(error.type_name() == "ZeroDivisionError");
        CHECK(error.formatted().find("<eval>") != std::string::npos);
        return 0;
    }
    return 1;
}

template <rl::task<void> (*App)(py::interpreter&)>
int hosts(const arguments&) {
    return py::run(App);
}
const scenario all[] = {{"same_object", &hosts<same_object>},
                        {"three_levels", &hosts<three_levels>},
                        {"app_throws", &app_throws},
                        {"app_raises", &app_raises}};

}  // namespace
