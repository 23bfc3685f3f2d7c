// Children: how they end, what they inherit, why they do not start, what a stop and a destructor
// leave.
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT
using namespace std::chrono_literals;

namespace {

using rl::command;
using rl::exit_status;
using rl::process;
using rl::stdio;

command shell(const char* script) {
    return {"sh", "-c", script};
}

bool has_no_children() {
    return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

rl::error failure_of(runner& r, const command& what) {
    const auto scenario = [&]() -> rl::task<void> {
        const process child = process::spawn(what);
        co_return;
    };
    try {
        r.run(scenario());
    } catch (const rl::error& e) {
        return e;
    }
    throw std::runtime_error("it was started");
}

}  // namespace

TEST_CASE("a child's end: a code, a signal", "[process]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        process good = process::spawn({"true"});
        process seven = process::spawn(shell("exit 7"));
        process killed = process::spawn(shell("kill -TERM $$"));
        CHECK(good.id() > 0);
        const exit_status first = co_await good.wait();
        CHECK(first.success());
        const exit_status second = co_await seven.wait();
        CHECK(second == exit_status{7, 0, false});
        const exit_status third = co_await killed.wait();
        CHECK(third.signal == SIGTERM);
        CHECK_FALSE(third.success());
        const exit_status again = co_await seven.wait();
        CHECK(again == second);
        seven.signal(SIGTERM);  // of no effect
    };
    r.run(scenario());
    CHECK(has_no_children());
}

TEST_CASE("signals reach a child; several may wait for its end", "[process]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    int seen = 0;
    const auto wait = [&](process& child) -> rl::task<void> {
        const exit_status end = co_await child.wait();
        seen += end.signal;
    };
    const auto scenario = [&]() -> rl::task<void> {
        process child = process::spawn({"sleep", "600"});
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(wait(child));
            group.spawn(wait(child));
            co_await rl::yield();
            CHECK_THROWS_AS(child.signal(12345), rl::error);
            child.signal(SIGINT);
        });
    };
    r.run(scenario());
    CHECK(seen == 2 * SIGINT);
}

// It asked again after 10 ns, not 10 ms, and so kept a processor busy.
TEST_CASE("a dead child that a debugger holds back is waited for in peace", "[process]") {
    runner r(rl::testing::real_bodies().back());
    const auto cpu_ms = [] { return std::clock() * 1000 / CLOCKS_PER_SEC; };
    const auto scenario = [&]() -> rl::task<void> {
        process child = process::spawn({"sleep", "600"});
        int told[2];
        REQUIRE(pipe(told) == 0);
        const pid_t debugger = fork();
        if (debugger == 0) {
            const long held = ptrace(PTRACE_SEIZE, child.id(), nullptr, nullptr);
            [[maybe_unused]] const ssize_t n = ::write(told[1], held == 0 ? "y" : "n", 1);
            ::pause();
            _exit(0);
        }
        char answer = 0;
        REQUIRE(::read(told[0], &answer, 1) == 1);
        ::close(told[0]);
        ::close(told[1]);
        child.kill();
        if (answer == 'y') {
            const auto before_ms = cpu_ms();
            bool ended = false;
            try {
                co_await rl::with_timeout(300ms, [&]() -> rl::task<void> {
                    co_await child.wait();
                    ended = true;
                }());
            } catch (const rl::timed_out&) {
            }
            CHECK_FALSE(ended);
            CHECK(cpu_ms() - before_ms < 100);
        } else {
            WARN("nobody may trace here: not tried");
        }
        ::kill(debugger, SIGKILL);
        REQUIRE(waitpid(debugger, nullptr, 0) == debugger);
        const exit_status end = co_await child.wait();
        CHECK(end.signal == SIGKILL);
    };
    r.run(scenario());
    CHECK(has_no_children());
}

TEST_CASE("what cannot be started says why, and leaves nothing", "[process]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    std::string folder = "/tmp/ringloop-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/plain") << "no program";
    ::chmod((folder + "/plain").c_str(), 0600);

    command what("no-such-program");
    // A folder of PATH that we may not search would make it EACCES, as execvp() has it.
    what.environment = std::vector<std::string>(1, "PATH=/usr/bin:/bin");
    what.input = what.output = what.errors = stdio::pipe();
    CHECK(failure_of(r, what).code().value() == ENOENT);
    CHECK(std::string(failure_of(r, what).what()).find("no-such-program") != std::string::npos);
    what.program = folder + "/plain";
    CHECK(failure_of(r, what).code().value() == EACCES);
    what = command("plain");
    what.environment = std::vector<std::string>(1, "PATH=/nowhere:" + folder + ":/nowhere");
    CHECK(failure_of(r, what).code().value() == EACCES);
    what = command("true");
    what.working_directory = "/no-such-directory";
    const rl::error nowhere = failure_of(r, what);
    CHECK(nowhere.code().value() == ENOENT);
    CHECK(std::string(nowhere.what()).find("change to '/no-such-directory'") != std::string::npos);
    what = command("true");
    what.output = stdio::descriptor(9999);
    CHECK(failure_of(r, what).code().value() == EBADF);
    what = command("true");
    what.descriptors.push_back(9999);
    CHECK(failure_of(r, what).code().value() == EBADF);
    std::filesystem::remove_all(folder);
    CHECK(has_no_children());
}

TEST_CASE("a command that makes no sense is refused", "[process]") {
    runner r(rl::testing::real_bodies().back());
    const auto refused = [&](const command& what) {
        const auto scenario = [&]() -> rl::task<void> {
            CHECK_THROWS_AS(process::spawn(what), std::invalid_argument);
            co_return;
        };
        r.run(scenario());
    };
    refused(command(""));
    refused(command("true", std::string("a\0b", 3)));
    command what("true");
    what.environment = std::vector<std::string>(1, "no-equals-sign");
    refused(what);
    what = command("true");
    what.output = stdio::output();
    refused(what);
    what = command("true");
    what.input = stdio::descriptor(-1);
    refused(what);
    what = command("true");
    what.descriptors.push_back(1);
    refused(what);
    process none;
    CHECK_FALSE(none);
    CHECK_THROWS_AS(none.kill(), std::logic_error);
    CHECK_THROWS_AS(none.output(), std::logic_error);
}

TEST_CASE("a child has the descriptors that it is given, and no other", "[process]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const int leaky = ::open("/dev/null", O_RDONLY);  // not close-on-exec
    const int given = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    std::string listed;
    const auto scenario = [&]() -> rl::task<void> {
        command list("ls", "-l", "/proc/self/fd");
        list.descriptors.push_back(given);
        const process::completed done = co_await process::run(std::move(list));
        CHECK(done.status.success());
        listed = done.output;
    };
    r.run(scenario());
    ::close(leaky);
    ::close(given);
    CAPTURE(listed);
    std::size_t count = 0;
    for (std::size_t at = listed.find(" -> "); at != std::string::npos; ++count)
        at = listed.find(" -> ", at + 1);
    CHECK(count == 5);  // its three streams, the one given, and what ls itself has opened
    CHECK(listed.find(" " + std::to_string(given) + " -> /dev/zero") != std::string::npos);
    CHECK(listed.find(" 0 -> /dev/null") != std::string::npos);
}

TEST_CASE("a child begins with no signal blocked, and SIGPIPE as usual", "[process]") {
    runner r(rl::testing::real_bodies().back());
    sigset_t blocked;
    sigset_t before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    struct sigaction pipe_before {};
    struct sigaction hangup_before {};
    sigaction(SIGPIPE, &ignore, &pipe_before);
    sigaction(SIGHUP, &ignore, &hangup_before);
    std::string status;
    sigset_t during;
    const auto scenario = [&]() -> rl::task<void> {
        const rl::signal_set caught(SIGUSR2);
        const process::completed done = co_await process::run({"cat", "/proc/self/status"});
        status = done.output;
        pthread_sigmask(SIG_SETMASK, nullptr, &during);
    };
    r.run(scenario());
    sigaction(SIGPIPE, &pipe_before, nullptr);
    sigaction(SIGHUP, &hangup_before, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    CHECK(sigismember(&during, SIGUSR1) == 1);
    CHECK(sigismember(&during, SIGTERM) == 0);
    const auto has = [&](const char* field, int number) {
        const std::size_t at = status.find(field) + std::strlen(field);
        return (std::stoull(status.substr(at, 20), nullptr, 16) >> (number - 1) & 1) != 0;
    };
    CHECK_FALSE(has("SigBlk:", SIGUSR1));
    CHECK_FALSE(has("SigBlk:", SIGTERM));
    CHECK_FALSE(has("SigCgt:", SIGUSR2));
    CHECK_FALSE(has("SigIgn:", SIGPIPE));
    CHECK(has("SigIgn:", SIGHUP));  // as for every program, nohup's among them
}

TEST_CASE("the streams of a child: pipes, files, nothing, one for two", "[process]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        command both = shell("read line; echo \"got $line\"; echo error >&2; pwd; echo $NAME");
        both.input = both.output = stdio::pipe();
        both.errors = stdio::output();
        both.working_directory = "/usr";
        both.environment = std::vector<std::string>(1, "NAME=value");
        process child = process::spawn(both);
        CHECK_FALSE(child.errors());
        co_await child.input().write_all("word\n");
        const std::string text = co_await child.output().read_all();
        CHECK(text == "got word\nerror\n/usr\nvalue\n");
        const exit_status end = co_await child.wait();
        CHECK(end.success());

        // Streams of ours that trade places.
        rl::pipe_ends first = rl::make_pipe();
        rl::pipe_ends second = rl::make_pipe();
        command swapped = shell("echo out; echo err >&2");
        swapped.output = stdio::descriptor(second.writer.native_handle());
        swapped.errors = stdio::descriptor(first.writer.native_handle());
        process other = process::spawn(swapped);
        first.writer.close();
        second.writer.close();
        const std::string errors = co_await first.reader.read_all();
        CHECK(errors == "err\n");
        const std::string output = co_await second.reader.read_all();
        CHECK(output == "out\n");
        static_cast<void>(co_await other.wait());
    };
    r.run(scenario());
}

TEST_CASE("wait() ends with the child though a grandchild holds its pipe", "[process]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        command what = shell("sleep 600 & echo $!");
        what.output = stdio::pipe();
        process child = process::spawn(what);
        const exit_status end = co_await child.wait();
        CHECK(end.success());
        std::array<std::byte, 32> part{};
        const std::size_t count = co_await child.output().read_some(part);
        ::kill(std::stoi(std::string(text_of(std::span(part).first(count)))), SIGKILL);
    };
    r.run(scenario());
}

TEST_CASE("a stopped wait loses nothing, and leaves the child alone", "[process][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    exit_status end;
    const auto wait = [&](process& child) -> rl::task<void> { end = co_await child.wait(); };
    const auto scenario = [&]() -> rl::task<void> {
        command what = shell("read line; exit 5");
        what.input = stdio::pipe();
        process child = process::spawn(what);
        for (int i = 0; i < 3; ++i) {
            co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
                group.spawn(wait(child));
                co_await rl::yield();
                group.cancel();
            });
        }
        process moved = std::move(child);
        moved.input().close();
        co_await wait(moved);
    };
    r.run(scenario());
    CHECK(end.code == 5);
}

TEST_CASE("the end of a process object is the end of its child", "[process]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    int id = 0;
    const auto scenario = [&]() -> rl::task<void> {
        process child = process::spawn({"sleep", "600"});
        id = child.id();
        CHECK(::kill(id, 0) == 0);
        co_return;
    };
    r.run(scenario());
    CHECK(::kill(id, 0) == -1);
    CHECK(has_no_children());
}

TEST_CASE("a child that somebody else has collected is told as such", "[process]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        process child = process::spawn({"true"});
        waitpid(child.id(), nullptr, 0);
        int number = 0;
        try {
            static_cast<void>(co_await child.wait());
        } catch (const rl::error& e) {
            number = e.code().value();
        }
        CHECK(number == ECHILD);
        child.kill();  // of no effect
    };
    r.run(scenario());
}

TEST_CASE("run() moves much through all three pipes at once", "[process]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string text = pattern(1'000'000);
    const auto scenario = [&]() -> rl::task<void> {
        const process::completed done =
            co_await process::run({"sh", "-c", "tee /dev/stderr; exit 3"}, text);
        CHECK(done.status.code == 3);
        CHECK(done.output == text);
        CHECK(done.errors == text);
        const process::completed deaf = co_await process::run({"true"}, text);
        CHECK(deaf.status.success());
    };
    r.run(scenario());
    CHECK(has_no_children());
}

TEST_CASE("a stopped run() leaves no child", "[process][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    bool timed_out = false;
    const auto scenario = [&]() -> rl::task<void> {
        try {
            static_cast<void>(
                co_await rl::with_timeout(std::chrono::milliseconds(20),
                                          process::run({"sleep", "600"}, "nobody reads this")));
        } catch (const rl::timed_out&) {
            timed_out = true;
        }
        CHECK(has_no_children());
    };
    r.run(scenario());
    CHECK(timed_out);
}

TEST_CASE("a hundred children leave no descriptor and no zombie", "[process]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);  // its ledger counts the descriptors
    int good = 0;
    const auto one = [&](int code) -> rl::task<void> {
        const std::string text = std::to_string(code);
        const process::completed done =
            co_await process::run({"sh", "-c", "cat; exit $0", text}, text);
        if (done.status.code == code && done.output == text) ++good;
    };
    const auto scenario = [&]() -> rl::task<void> {
        for (int round = 0; round < 10; ++round) {
            co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
                for (int i = 0; i < 10; ++i) group.spawn(one(i));
                co_return;
            });
        }
    };
    r.run(scenario());
    CHECK(good == 100);
    CHECK(has_no_children());
}
