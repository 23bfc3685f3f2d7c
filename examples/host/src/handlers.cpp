// handlers: a native server whose answers come from Python, which may be changed while it runs.
//
//     handlers ADDRESS PORT FOLDER
//
// Each line that a client sends is given to `async def handle(line)` of FOLDER/handlers.py. When
// that file changes it is read as a new module: requests under way end in the module that they
// began in, the next ones get the new one. Where the new one does not even load, the old one stays,
// and the error is told.
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>

#include <ringloop/python.hpp>

#include "lines.hpp"

namespace rl = ringloop;
namespace py = ringloop::py;

namespace {

class handlers {
  public:
    handlers(py::interpreter& python, std::filesystem::path file)
        : python_(python), file_(std::move(file)) {}

    rl::task<void> load() {
        const std::string text = co_await rl::fs::read_file(file_);
        py::object made = python_.exec("handlers", text);
        if (!made.has_attr("handle")) throw std::runtime_error("it has no handle()");
        now_ = std::move(made);
    }
    // Until it is stopped.
    rl::task<void> follow() {
        rl::fs::watcher watch;
        co_await watch.add(file_.parent_path());
        while (true) {
            const rl::fs::change seen = co_await watch.next();
            const bool is_whole = seen.what == rl::fs::change::kind::written ||
                                  seen.what == rl::fs::change::kind::moved_to;
            if (!is_whole || seen.path.filename() != file_.filename()) continue;
            try {
                co_await load();
                std::cout << "loaded" << std::endl;
            } catch (const std::exception& failure) {
                if (dynamic_cast<const rl::operation_cancelled*>(&failure) != nullptr) throw;
                std::cout << "kept the old one: " << failure.what() << std::endl;
            }
        }
    }
    rl::task<std::string> answer(std::string line) {
        try {
            co_return co_await py::await<std::string>(now_.call("handle", line));
        } catch (const py::error& raised) {
            co_return std::string("failed: ") + raised.what();
        }
    }

  private:
    py::interpreter& python_;
    std::filesystem::path file_;
    py::object now_;
};

rl::task<void> session(rl::net::tcp_stream stream, handlers& all) {
    auto heard = lines::of(stream);
    while (auto line = co_await heard.next()) {
        const std::string text = co_await all.answer(std::move(*line)) + "\n";
        co_await stream.write_all(text);
    }
}

}  // namespace

int main(int count, char** words) try {
    if (count != 4) throw std::invalid_argument("usage: handlers ADDRESS PORT FOLDER");
    return py::run([words](py::interpreter& python) -> rl::task<void> {
        handlers all(python, std::filesystem::path(words[3]) / "handlers.py");
        co_await all.load();
        auto listener = lines::listen(words[1], words[2]);
        co_await rl::with_group([&](rl::task_group& tasks) -> rl::task<void> {
            tasks.spawn(all.follow());
            while (true) tasks.spawn(session(co_await listener.accept(), all), rl::on_error::log);
        });
    });
} catch (const py::error& raised) {
    std::cerr << raised.formatted();
    return 1;
} catch (const std::exception& failure) {
    std::cerr << "handlers: " << failure.what() << '\n';
    return 1;
}
