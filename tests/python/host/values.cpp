// Objects, conversions and errors, outside of awaits. Thread: the main one.
#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "scenario.hpp"

namespace {

namespace py = rl::py;

// What `function` throws, as text: "TypeError: …".
template <class Function>
std::string raised(Function function) {
    try {
        function();
    } catch (const py::error& error) {
        return error.what();
    }
    return "nothing";
}
bool begins(const std::string& text, const char* with) {
    return text.rfind(with, 0) == 0;
}

template <class T>
T there_and_back(py::interpreter& python, T value) {
    return python.from(std::move(value)).template as<T>();
}

rl::task<void> conversions(py::interpreter& python) {
    CHECK(there_and_back<std::int64_t>(python, std::numeric_limits<std::int64_t>::min()) ==
          std::numeric_limits<std::int64_t>::min());
    CHECK(there_and_back<std::uint64_t>(python, ~0ULL) == ~0ULL);
    CHECK(there_and_back<std::string>(python, "grün") == "grün");
    CHECK(there_and_back<bool>(python, true));
    using nested = std::map<std::string, std::vector<std::optional<double>>>;
    const nested all{{"a", {1.5, std::nullopt}}, {"b", {}}};
    CHECK(there_and_back(python, all) == all);
    CHECK(there_and_back(python, std::tuple(1, std::string("x"), 2.5F)) ==
          std::tuple(1, std::string("x"), 2.5F));
    CHECK(there_and_back(python, std::pair(1, std::deque<int>{2, 3})) ==
          std::pair(1, std::deque<int>{2, 3}));
    CHECK(python.eval("{3, 1}").as<std::set<int>>() == std::set<int>{1, 3});
    CHECK(python.eval("range(3)").as<std::vector<int>>() == std::vector<int>{0, 1, 2});
    CHECK(python.from(py::bytes("a\0b")).as<py::bytes>().data == "a");
    CHECK(python.from(nullptr).is_none());
    co_return;
}

rl::task<void> ranges(py::interpreter& python) {
    const auto big = python.eval("2 ** 63");
    CHECK(big.as<std::uint64_t>() == 1ULL << 63);
    CHECK(begins(raised([&] { static_cast<void>(big.as<std::int64_t>()); }), "OverflowError"));
    CHECK(begins(raised([&] { static_cast<void>(python.eval("-1").as<std::uint8_t>()); }),
                 "OverflowError"));
    CHECK(begins(
        raised([&] { static_cast<void>(python.eval("[1, 256]").as<std::vector<std::uint8_t>>()); }),
        "OverflowError"));
    CHECK(begins(raised([&] { static_cast<void>(python.eval("1e300").as<float>()); }),
                 "OverflowError"));
    CHECK(begins(raised([&] { static_cast<void>(python.eval("1.5").as<int>()); }), "TypeError"));
    CHECK(begins(raised([&] { static_cast<void>(python.eval("1").as<std::string>()); }),
                 "TypeError"));
    CHECK(begins(raised([&] { static_cast<void>(python.eval("1").as<bool>()); }), "TypeError"));
    CHECK(begins(
        raised([&] { static_cast<void>(python.eval("'ab'").as<std::vector<std::string>>()); }),
        "TypeError"));
    CHECK(begins(
        raised([&] { static_cast<void>(python.eval("(1, 2, 3)").as<std::pair<int, int>>()); }),
        "ValueError"));
    CHECK(begins(raised([&] { static_cast<void>(python.eval("None").as<int>()); }), "TypeError"));
    co_return;
}

rl::task<void> objects(py::interpreter& python) {
    const auto module = python.exec("made", R"(
class Box:
    def __init__(self, **names):
        self.__dict__.update(names)
def join(*words, sep):
    return sep.join(words)
)",
                                    py::named("given", 4));
    CHECK(module.attr("given").as<int>() == 4);
    CHECK(module.call("join", "a", std::string("b"), py::named("sep", "-")).as<std::string>() ==
          "a-b");
    const auto box = module.attr("Box")(py::named("x", 1));
    box.set_attr("y", std::vector<int>{1, 2});
    CHECK(box.attr("x").as<int>() == 1);
    CHECK(box.attr("y")[1].as<int>() == 2);
    CHECK(box.attr("y")[-1].as<int>() == 2);
    CHECK(box.attr("y").size() == 2);
    CHECK(box.has_attr("x") && !box.has_attr("z"));
    const auto dict = python.eval("{}");
    dict.set_item("key", box);
    CHECK(dict["key"].is(box));
    CHECK(!python.eval("[]").truth());
    CHECK(dict["key"].attr("y").repr() == "[1, 2]");
    CHECK(begins(raised([&] { static_cast<void>(dict["other"]); }), "KeyError"));
    CHECK(begins(raised([&] { static_cast<void>(box.attr("z")); }), "AttributeError"));
    CHECK(python.import("sys").attr("modules").call("get", "made").is_none());
    py::object copy = dict;
    copy = copy["key"];
    CHECK(copy.is(box));
    const std::string refused = raised([&] { static_cast<void>(python.exec("bad", "if")); });
    CHECK(begins(refused, "SyntaxError"));
    co_return;
}

// Native memory in Python's hands: no copy, kept for as long as somebody looks at it, checked.
rl::task<void> lends(py::interpreter& python) {
    auto frame = std::make_shared<std::vector<std::uint16_t>>(12);
    std::iota(frame->begin(), frame->end(), std::uint16_t{0});
    const std::weak_ptr<std::vector<std::uint16_t>> alive = frame;
    py::object view = py::lend(frame, 3, 4);
    CHECK(view.attr("shape").as<std::vector<int>>() == std::vector<int>{3, 4});
    CHECK(view.attr("format").as<std::string>() == "H");
    CHECK(view.call("tolist").as<std::vector<std::vector<int>>>()[2][1] == 9);
    view.set_item(std::pair(0, 1), 77);  // Python writes, and native code reads
    CHECK((*frame)[1] == 77);
    (*frame)[2] = 78;
    CHECK(view[std::pair(0, 2)].as<int>() == 78);
    CHECK(view.as<py::buffer<std::uint16_t>>().data() == frame->data());  // there and back
    CHECK(python.eval("bytes(view)", py::named("view", view)).size() == 24);
    CHECK(begins(raised([&] { static_cast<void>(view.as<py::buffer<float>>()); }), "TypeError"));
    CHECK(begins(raised([&] { view.set_item(std::pair(0, 1), 1 << 16); }), "ValueError"));
    frame.reset();
    py::object flat = python.eval("memoryview(view.obj).cast('B')[2:4]", py::named("view", view));
    view = py::object();
    CHECK(!alive.expired());
    CHECK(flat.call("tolist").as<std::vector<int>>() == std::vector<int>{77, 0});
    flat = py::object();
    const py::object asyncio = python.import("asyncio");
    while (!alive.expired()) co_await py::await(asyncio.call("sleep", 0.001));

    const auto text = std::make_shared<const std::string>("text");
    const py::object fixed = py::lend(text);
    CHECK(fixed.attr("readonly").as<bool>());
    CHECK(begins(raised([&] { fixed.set_item(0, 1); }), "TypeError"));
    CHECK(python.eval("str(text, 'utf-8')", py::named("text", fixed)).as<std::string>() == "text");
    CHECK(py::lend(std::make_shared<std::vector<double>>()).size() == 0);
    CHECK(py::lend(std::make_shared<std::array<bool, 2>>()).attr("format").as<std::string>() ==
          "?");
    bool refused = false;
    try {
        static_cast<void>(py::lend(text, 2, 3));
    } catch (const std::invalid_argument&) {
        refused = true;
    }
    CHECK(refused);
    co_return;
}

// Each member leaves the reference count as it was.
rl::task<void> counts(py::interpreter& python) {
    const auto list = python.eval("[[1], {'a': object()}]");
    const auto at = list[1];
    const auto count = [](const py::object& of) {
        const py::gil_scope gil;
        return Py_REFCNT(of.get());
    };
    const auto before = count(list);
    const auto before_element = count(at);
    for (int i = 0; i < 1000; ++i) {
        static_cast<void>(list[1]["a"].repr());
        static_cast<void>(list.size());
        static_cast<void>(list.call("index", at));
        static_cast<void>(list.as<std::vector<py::object>>());
        static_cast<void>(raised([&] { static_cast<void>(list[7]); }));
        list.set_item(0, at);
        static_cast<void>(py::object(list));
    }
    list.set_item(0, nullptr);
    // What ended without the GIL goes with the next thing that the main thread runs.
    static_cast<void>(python.eval("[None for _ in range(10)]"));
    co_await rl::sleep_for(std::chrono::milliseconds(1));
    co_await py::await(python.import("asyncio").call("sleep", 0.001));
    CHECK(count(list) == before);
    CHECK(count(at) == before_element);
}

rl::task<void> errors(py::interpreter& python) {
    const auto module = python.exec("failing", R"(
class Mine(Exception):
    pass
def fails():
    try:
        {}['missing']
    except KeyError as error:
        raise Mine('broken') from error
)");
    try {
        module.call("fails");
        CHECK(false);
    } catch (const py::error& error) {
        CHECK(error.type_name() == "failing.Mine");
        CHECK(std::string(error.what()) == "Mine: broken" ||
              std::string(error.what()) == "failing.Mine: broken");
        CHECK(error.traceback().get() != nullptr);
        const auto cause = error.cause();
        CHECK(cause && cause->type_name() == "KeyError");
        CHECK(!cause->cause());
        CHECK(error.native() == nullptr);
        const std::string all = error.formatted();
        CHECK(all.find("direct cause") != std::string::npos);
        CHECK(all.find("<failing>") != std::string::npos);
        const py::gil_scope gil;
        CHECK(error.matches(PyExc_Exception) && !error.matches(PyExc_OSError));
        CHECK(error.value() != nullptr && error.type() == module.attr("Mine").get());
    }
    co_return;
}

rl::task<void> threads(py::interpreter& python) {
    auto counter =
        python.exec("counter", "total = 0\ndef add(n):\n    global total\n    total += n\n");
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i)
        all.emplace_back([counter] {
            for (int n = 0; n < 500; ++n) counter.call("add", 1);
        });
    for (auto& each : all) each.join();
    CHECK(counter.attr("total").as<int>() == 2000);
    co_return;
}

template <rl::task<void> (*App)(py::interpreter&)>
int hosts(const arguments&) {
    return py::run(App);
}
const scenario all[] = {{"conversions", &hosts<conversions>},
                        {"ranges", &hosts<ranges>},
                        {"objects", &hosts<objects>},
                        {"counts", &hosts<counts>},
                        {"errors", &hosts<errors>},
                        {"threads", &hosts<threads>},
                        {"lends", &hosts<lends>}};

}  // namespace
