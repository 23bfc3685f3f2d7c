// chat: a line that one client sends goes to all of them, with the sender's address before it.
//
//     chat ADDRESS PORT
//
// A client is two coroutines in a group of its own: one reads lines, one writes what others said.
// Between the room and each writer lies a bounded channel. Nobody waits for a slow reader: whoever
// has `unread_max` lines waiting when the next one comes is dropped, and so is who sends a line
// longer than `line_max`.
#include <cstddef>
#include <iostream>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include <ringloop/ringloop.hpp>

#include "serving.hpp"

namespace rl = ringloop;

namespace {

constexpr std::size_t line_max = 4096;
constexpr std::size_t unread_max = 256;

using line = std::shared_ptr<const std::string>;  // one copy, however many read it

struct client {
    explicit client(rl::net::tcp_stream connected)
        : stream(std::move(connected)), name(stream.peer().to_string()) {}
    rl::net::tcp_stream stream;
    std::string name;
    rl::channel<line> unread{unread_max};
    rl::task_group* tasks = nullptr;
};

class room {
  public:
    void say(const std::string& text) {
        const auto shared = std::make_shared<const std::string>(text);
        for (client* each : here_) {
            if (each->unread.try_send(line(shared))) continue;
            std::cerr << "dropped " << each->name << ": it reads too slowly\n";
            each->tasks->cancel();
        }
    }
    // A client is in the room for as long as its seat lives.
    class seat {
      public:
        seat(room& in, client& who) : in_(in), who_(who) { in_.here_.insert(&who_); }
        ~seat() { in_.here_.erase(&who_); }
        seat(const seat&) = delete;
        seat& operator=(const seat&) = delete;

      private:
        room& in_;
        client& who_;
    };

  private:
    std::set<client*> here_;
};

// The lines of a stream, without their ends; what follows the last one is no line.
rl::generator<std::string> lines(rl::net::tcp_stream& from) {
    std::string text;
    while (auto chunk = co_await from.receive()) {
        text += chunk.text();
        chunk.release();
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
            co_yield text.substr(begin, end - begin);
        text.erase(0, begin);
        if (text.size() > line_max) throw std::length_error("a line is too long");
    }
}

rl::task<void> read_lines(client& from, room& all) {
    auto heard = lines(from.stream);
    while (auto text = co_await heard.next()) all.say(from.name + ": " + *text + "\n");
}

rl::task<void> write_lines(client& to) {
    while (auto text = co_await to.unread.receive()) co_await to.stream.write_all(**text);
}

rl::task<void> session(rl::net::tcp_stream stream, room& all) {
    client me(std::move(stream));
    co_await rl::with_group([&](rl::task_group& tasks) -> rl::task<void> {
        me.tasks = &tasks;
        const room::seat seat(all, me);
        tasks.spawn(write_lines(me));
        co_await read_lines(me, all);
        tasks.cancel();
    });
}

rl::task<void> serve(rl::net::endpoint at) {
    auto listener = serving::listen(at);
    room all;
    co_await rl::with_group([&](rl::task_group& sessions) -> rl::task<void> {
        while (true) sessions.spawn(session(co_await listener.accept(), all), rl::on_error::log);
    });
}

}  // namespace

int main(int count, char** words) try {
    if (count != 3) throw std::invalid_argument("usage: chat ADDRESS PORT");
    return rl::run(serve({words[1], serving::port(words[2])}));
} catch (const std::exception& failure) {
    std::cerr << "chat: " << failure.what() << '\n';
    return 1;
}
