// Processes: what a command means, the wait, the end.
#include "ringloop/process/process.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>

#include "driver/child.hpp"
#include "ringloop/detail/operation_await.hpp"
#include "ringloop/detail/resident.hpp"
#include "ringloop/error.hpp"
#include "ringloop/net/ready.hpp"
#include "ringloop/sleep.hpp"
#include "ringloop/task_group.hpp"
#include "ringloop/when.hpp"

namespace ringloop {
namespace {

constexpr std::string_view usual_path = "/bin:/usr/bin";
// A debugger may hold a dead child back from its parent: how often we ask then.
constexpr std::chrono::nanoseconds held_back_pause = std::chrono::milliseconds(10);

void check_text(const std::string& text, const char* what) {
    if (text.find('\0') == std::string::npos) return;
    throw std::invalid_argument("ringloop: " + std::string(what) + " with a zero byte in it");
}

void check(const command& what) {
    if (what.program.empty()) throw std::invalid_argument("ringloop: a command without a program");
    check_text(what.program, "a program's name");
    check_text(what.working_directory, "a working directory");
    for (const std::string& each : what.arguments) check_text(each, "an argument");
    for (const stdio& each : {what.input, what.output})
        if (each.from() == stdio::source::output)
            throw std::invalid_argument("ringloop: stdio::output() is for errors only");
    for (const stdio& each : {what.input, what.output, what.errors})
        if (each.from() == stdio::source::descriptor && each.fd() < 0)
            throw std::invalid_argument("ringloop: a negative descriptor for a child");
    for (const int fd : what.descriptors)
        if (fd < 3)
            throw std::invalid_argument("ringloop: descriptor " + std::to_string(fd) +
                                        " is one of the child's streams, or negative");
    if (!what.environment) return;
    for (const std::string& each : *what.environment) {
        check_text(each, "an environment variable");
        if (each.find('=', 1) == std::string::npos)
            throw std::invalid_argument("ringloop: '" + each + "' is no NAME=value");
    }
}

std::string path_of(const command& what) {
    if (!what.environment) {
        const char* ours = std::getenv("PATH");
        return ours == nullptr ? std::string(usual_path) : ours;
    }
    for (const std::string& each : *what.environment)
        if (each.starts_with("PATH=")) return each.substr(5);
    return std::string(usual_path);
}

std::vector<std::string> candidates_of(const command& what) {
    if (what.program.find('/') != std::string::npos) return {what.program};
    std::vector<std::string> found;
    const std::string path = path_of(what);
    for (std::size_t begin = 0; begin <= path.size();) {
        const std::size_t end = std::min(path.find(':', begin), path.size());
        const std::string folder = path.substr(begin, end - begin);
        found.push_back((folder.empty() ? "." : folder) + "/" + what.program);
        begin = end + 1;
    }
    return found;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& each : texts) all.push_back(const_cast<char*>(each.c_str()));
    return all;
}

// Descriptors that are closed at the end of the start, whatever happens.
class borrowed {
  public:
    explicit borrowed(driver& io) noexcept : io_(io) {}
    ~borrowed() {
        for (const int fd : fds_) io_.close(fd);
    }
    borrowed(const borrowed&) = delete;
    borrowed& operator=(const borrowed&) = delete;
    int keep(int fd) {
        detail::checked(fd, "prepare the streams of a process");
        try {
            fds_.push_back(fd);
        } catch (...) {
            io_.close(fd);
            throw;
        }
        return fd;
    }

  private:
    driver& io_;
    std::vector<int> fds_;
};

struct streams {
    pipe_writer input;
    pipe_reader output;
    pipe_reader errors;
};

// The number of a stream that this process has closed must not become ours: the child would inherit
// it.
int above(int fd) {
    return detail::checked(detail::above_streams(fd), "prepare the streams of a process");
}

// Makes a pipe and keeps one end as `ours`; the other is the child's.
int pipe_for(scheduler& home, pipe_writer& ours, borrowed& lent) {
    pipe_ends made = make_pipe();
    ours = pipe_writer(home, above(made.writer.release()));
    return lent.keep(detail::above_streams(made.reader.release()));
}
int pipe_for(scheduler& home, pipe_reader& ours, borrowed& lent) {
    pipe_ends made = make_pipe();
    ours = pipe_reader(home, above(made.reader.release()));
    return lent.keep(detail::above_streams(made.writer.release()));
}

template <class Ours>
int stream_for(scheduler& home, int number, const stdio& wish, Ours& ours, borrowed& lent) {
    switch (wish.from()) {
        case stdio::source::null:
            return lent.keep(detail::above_streams(detail::open_null()));
        case stdio::source::pipe:
            return pipe_for(home, ours, lent);
        case stdio::source::descriptor:
            return wish.fd();
        default:
            return number;
    }
}

[[noreturn]] void throw_failure(const command& what, const detail::spawned& failed) {
    std::string text = "start '" + what.program + "'";
    switch (failed.failed_at) {
        case detail::spawn_step::descriptors:
            text += ": pass its descriptors";
            break;
        case detail::spawn_step::session:
            text += ": make a session";
            break;
        case detail::spawn_step::directory:
            text += ": change to '" + what.working_directory + "'";
            break;
        default:
            break;
    }
    detail::throw_error(failed.error_number, text.c_str());
}

}  // namespace

struct process::state : private detail::resident {
    explicit state(scheduler& its_home) noexcept
        : resident(its_home, [](resident& self) noexcept { static_cast<state&>(self).leave(); }),
          home(its_home) {}
    state(const state&) = delete;
    state& operator=(const state&) = delete;
    ~state() { leave(); }
    void leave() noexcept {
        part();
        if (pidfd < 0) return;
        if (!end) {
            const bool dies = detail::signal_child(pidfd, SIGKILL) == 0;
            detail::child_end ignored;
            static_cast<void>(detail::reap_child(pidfd, dies, ignored));
        }
        home.io().close(std::exchange(pidfd, -1));
    }

    scheduler& home;
    int pid = -1;
    int pidfd = -1;
    std::optional<exit_status> end;
    streams pipes;
};

process::process() noexcept = default;
process::process(process&&) noexcept = default;
process& process::operator=(process&&) noexcept = default;
process::~process() = default;
process::process(std::unique_ptr<state> made) noexcept : state_(std::move(made)) {}

process process::spawn(const command& what) {
    check(what);
    scheduler& home = detail::running_scheduler();
    auto made = std::make_unique<state>(home);
    const std::vector<std::string> candidates = candidates_of(what);
    std::vector<char*> arguments = pointers_to(what.arguments);
    arguments.insert(arguments.begin(), const_cast<char*>(what.program.c_str()));
    arguments.push_back(nullptr);
    std::vector<char*> environment;
    if (what.environment) environment = pointers_to(*what.environment);
    environment.push_back(nullptr);
    std::vector<int> kept = what.descriptors;
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());

    borrowed lent(home.io());
    streams& pipes = made->pipes;
    detail::spawn_request request{
        .candidates = candidates,
        .arguments = arguments.data(),
        .environment = what.environment ? environment.data() : environ,
        .directory = what.working_directory.empty() ? nullptr : what.working_directory.c_str(),
        .streams = {},
        .kept = kept,
        .new_session = what.new_session,
    };
    request.streams[0] = stream_for(home, 0, what.input, pipes.input, lent);
    request.streams[1] = stream_for(home, 1, what.output, pipes.output, lent);
    request.streams[2] = what.errors.from() == stdio::source::output
                             ? request.streams[1]
                             : stream_for(home, 2, what.errors, pipes.errors, lent);
    const detail::spawned child = detail::spawn_child(request);
    if (child.error_number != 0) throw_failure(what, child);
    made->pid = child.pid;
    made->pidfd = child.pidfd;
    return process(std::move(made));
}

process::state& process::checked() const {
    if (state_ == nullptr) throw std::logic_error("ringloop: an empty process, or a moved one");
    if (state_->pidfd < 0) throw std::logic_error("ringloop: the process's scheduler has ended");
    return *state_;
}

task<exit_status> process::wait() {
    return wait_for(checked());
}

task<exit_status> process::wait_for(state& child) {
    while (!child.end) {
        co_await net::ready(child.pidfd, POLLIN);
        if (child.end) break;  // another wait was faster
        detail::child_end found;
        detail::checked(detail::reap_child(child.pidfd, false, found), "wait for a process");
        if (found.ended) {
            child.end = exit_status{found.code, found.signal, found.core_dumped};
        } else {
            co_await sleep_until(child.home.now_ns() + held_back_pause.count());
        }
    }
    co_return *child.end;
}

void process::signal(int number) {
    state& child = checked();
    if (child.end) return;
    const int result = detail::signal_child(child.pidfd, number);
    if (result != -ESRCH) detail::checked(result, "signal a process");
}

void process::kill() {
    signal(SIGKILL);
}

pipe_writer& process::input() {
    return checked().pipes.input;
}
pipe_reader& process::output() {
    return checked().pipes.output;
}
pipe_reader& process::errors() {
    return checked().pipes.errors;
}
int process::id() const {
    return checked().pid;
}

// ---- run()

namespace {

task<void> feed(pipe_writer& input, const std::string& text) {
    try {
        co_await input.write_all(text);
    } catch (const error& failure) {
        if (failure.code() != std::errc::broken_pipe) throw;
    }
    input.close();
}

task<void> collect(pipe_reader& from, std::string& into) {
    into = co_await from.read_all();
}

}  // namespace

task<process::completed> process::run(command what) {
    if (what.input.from() == stdio::source::inherited) what.input = stdio::null();
    return communicate(std::move(what), {});
}

task<process::completed> process::run(command what, std::string text) {
    what.input = stdio::pipe();
    return communicate(std::move(what), std::move(text));
}

task<process::completed> process::communicate(command what, std::string text) {
    for (stdio* each : {&what.output, &what.errors})
        if (each->from() == stdio::source::inherited) *each = stdio::pipe();
    process child = spawn(what);
    completed all;
    std::exception_ptr failure;
    const auto everything = [&](task_group& group) -> task<void> {
        if (child.input()) group.spawn(feed(child.input(), text));
        if (child.output()) group.spawn(collect(child.output(), all.output));
        if (child.errors()) group.spawn(collect(child.errors(), all.errors));
        all.status = co_await child.wait();
    };
    try {
        co_await with_group(everything);
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure != nullptr) {
        child.kill();
        co_await shield(child.wait());
        std::rethrow_exception(failure);
    }
    co_return all;
}

}  // namespace ringloop
