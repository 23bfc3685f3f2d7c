// process: a child process, from its start to its end.
//
//     command list{"ls", "-l"};
//     list.output = stdio::pipe();
//     process child = process::spawn(list);
//     std::string text = co_await child.output().read_all();
//     exit_status end = co_await child.wait();
//
// or, with all of this in one: process::run({"ls", "-l"}).
//
// The child inherits what its command passes to it and nothing else: no descriptor, no blocked
// signal, SIGPIPE and SIGXFSZ at their defaults. It is watched and signalled through a pidfd (Linux
// 5.4): no SIGCHLD handler, no thread, and no signal to a number that is somebody else's by now.
// Lifetime: move-only. The destructor kills (SIGKILL) and collects a child that still runs, and
// waits those milliseconds; what its children do is theirs. One that it may not kill, as it has
// changed its user, is left running. No await on it or its pipes may be under way then.
// Thread: that of the scheduler it was started on. Errors: ringloop::error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringloop/process/pipe.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

// What a child has for one of its three streams.
class stdio {
  public:
    enum class source : unsigned char { inherited, null, pipe, descriptor, output };

    [[nodiscard]] static constexpr stdio inherited() noexcept { return {source::inherited, -1}; }
    [[nodiscard]] static constexpr stdio null() noexcept { return {source::null, -1}; }
    // A pipe to us.
    [[nodiscard]] static constexpr stdio pipe() noexcept { return {source::pipe, -1}; }
    // An open file, FIFO, socket … of ours, which stays ours.
    [[nodiscard]] static constexpr stdio descriptor(int fd) noexcept {
        return {source::descriptor, fd};
    }
    // Of `errors` only: where `output` goes.
    [[nodiscard]] static constexpr stdio output() noexcept { return {source::output, -1}; }

    [[nodiscard]] constexpr source from() const noexcept { return from_; }
    [[nodiscard]] constexpr int fd() const noexcept { return fd_; }

  private:
    constexpr stdio(source from, int fd) noexcept : from_(from), fd_(fd) {}
    source from_;
    int fd_;
};

struct command {
    // The arguments without the program's name.
    template <class... Arguments>
    command(std::string its_program, Arguments&&... its_arguments)
        : program(std::move(its_program)) {
        (arguments.emplace_back(std::forward<Arguments>(its_arguments)), ...);
    }

    std::string program;  // with a slash: a path; without: looked for in PATH, the child's
    std::vector<std::string> arguments = {};
    std::optional<std::vector<std::string>> environment = {};  // "NAME=value"; none: ours
    std::string working_directory = {};  // "": ours; a relative program is relative to it
    stdio input = stdio::inherited();
    stdio output = stdio::inherited();
    stdio errors = stdio::inherited();
    std::vector<int> descriptors = {};  // further ones of ours that it shall have, by their numbers
    bool new_session = false;           // out of reach of this terminal's signals
};

struct exit_status {
    int code = 0;    // of exit(); 0 if a signal ended it
    int signal = 0;  // what ended it, 0: it ended by itself
    bool core_dumped = false;
    [[nodiscard]] bool success() const noexcept { return code == 0 && signal == 0; }
    friend bool operator==(const exit_status&, const exit_status&) = default;
};

class process {
  public:
    // On the running scheduler, whose thread it holds for the tenth of a millisecond that starting
    // a program takes. What fails until the program runs is thrown here, with the program's name
    // (ENOENT, EACCES, a working directory that is not there …), and leaves nothing behind.
    // std::invalid_argument for a string with a zero byte in it, or a wrong descriptor.
    [[nodiscard]] static process spawn(const command& what);
    process() noexcept;
    process(process&&) noexcept;
    process& operator=(process&&) noexcept;
    ~process();

    // Waits until it has ended, whoever else still holds its pipes. Again after that: the same.
    // Cancel loses nothing. ECHILD: somebody else has collected it (or SIGCHLD is ignored), and
    // nobody knows how it ended.
    [[nodiscard]] task<exit_status> wait();
    // Nothing happens to a child that has ended. EPERM: it has changed its user; EINVAL.
    void signal(int number);
    void kill();

    // Ours of its pipes; empty (the awaits throw std::logic_error) where it has none.
    [[nodiscard]] pipe_writer& input();
    [[nodiscard]] pipe_reader& output();
    [[nodiscard]] pipe_reader& errors();
    [[nodiscard]] int id() const;
    [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

    struct completed {
        exit_status status;
        std::string output;
        std::string errors;
    };
    // Starts it, gives it `text` to read, collects what it writes, and waits for its end and that
    // of both pipes (which a grandchild may keep open). What the command leaves as inherited is a
    // pipe here, and /dev/null for an input without text. A child that does not read all is no
    // error. Cancel, or a failure on the way: the child is killed and collected, what it wrote is
    // lost.
    [[nodiscard]] static task<completed> run(command what);
    [[nodiscard]] static task<completed> run(command what, std::string text);

  private:
    struct state;
    explicit process(std::unique_ptr<state> made) noexcept;
    [[nodiscard]] state& checked() const;  // throws std::logic_error
    static task<exit_status> wait_for(state& child);
    static task<completed> communicate(command what, std::string text);
    std::unique_ptr<state> state_;
};

}  // namespace ringloop
