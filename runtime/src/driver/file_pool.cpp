// file_pool: see the header. One mutex guards everything that is shared; files are slow enough.
#include "driver/file_pool.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "ringloop/detail/signals_blocked.hpp"

namespace ringloop {

struct file_pool::job {
    operation* op = nullptr;  // null: given up
    op_code code = op_code::nop;
    int fd = -1;
    memory_arguments memory{};
    vector_arguments vector{};
    bool vectored = false;
    fsync_arguments fsync{};
    call_arguments call{};
    std::string path;
    std::string new_path;
    int new_directory = -1;
    int flags = 0;
    mode_t mode = 0;
    unsigned mask = 0;
    struct statx found {};
    std::int32_t result = 0;

    explicit job(operation& from);
    void run() noexcept;
    [[nodiscard]] int change_names() noexcept;
    [[nodiscard]] ssize_t transfer() noexcept;
    [[nodiscard]] bool owns_its_memory() const noexcept {
        return code == op_code::open || code == op_code::statx;
    }
};

struct file_pool::shared {
    struct worker {
        std::uint64_t number;
        std::thread thread;
        job* current = nullptr;
    };
    std::mutex mutex;
    std::condition_variable work_came;
    std::deque<std::unique_ptr<job>> waiting;
    std::deque<std::unique_ptr<job>> done;
    std::atomic<bool> has_done{false};
    std::list<worker> workers;  // those left behind are detached and no longer listed
    std::uint64_t next_number = 0;
    std::size_t idle = 0;
    std::size_t threads_max;
    int wake_fd;
    bool stopping = false;

    // The lock is held.
    void finish(std::unique_ptr<job> ended) {
        done.push_back(std::move(ended));
        if (has_done.exchange(true, std::memory_order_release)) return;
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = ::write(wake_fd, &one, sizeof one);
    }
};

file_pool::job::job(operation& from) : op(&from), code(from.code), fd(from.fd) {
    switch (code) {
        case op_code::open:
            path = from.arguments.open.path;
            flags = from.arguments.open.flags | O_CLOEXEC;
            mode = from.arguments.open.mode;
            break;
        case op_code::statx:
            path = from.arguments.statx.path;
            flags = from.arguments.statx.flags;
            mask = from.arguments.statx.mask;
            break;
        case op_code::fsync:
            fsync = from.arguments.fsync;
            break;
        case op_code::unlink:
        case op_code::mkdir:
            path = from.arguments.path.path;
            flags = from.arguments.path.flags;
            mode = from.arguments.path.mode;
            break;
        case op_code::rename:
        case op_code::link:
        case op_code::symlink:
            path = from.arguments.paths.path;
            new_path = from.arguments.paths.new_path;
            new_directory = from.arguments.paths.new_directory;
            flags = from.arguments.paths.flags;
            break;
        case op_code::call:
            call = from.arguments.call;
            break;
        case op_code::read:
        case op_code::write:
            vectored = from.vectored;
            if (vectored)
                vector = from.arguments.vector;
            else
                memory = from.arguments.memory;
            break;
        default:
            break;
    }
}

namespace {

// A FIFO opened for reading must not hold a worker until a writer comes. The ring opens it at once
// and leaves the waiting to the read, so here, too.
int open_for(int directory, const char* path, int flags, mode_t mode) noexcept {
    if ((flags & (O_ACCMODE | O_CREAT | O_NONBLOCK)) != O_RDONLY)
        return ::openat(directory, path, flags, mode);
    const int fd = ::openat(directory, path, flags | O_NONBLOCK, mode);
    if (fd >= 0) static_cast<void>(::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK));
    return fd;
}

}  // namespace

int file_pool::job::change_names() noexcept {
    switch (code) {
        case op_code::rename:
            return ::renameat2(fd, path.c_str(), new_directory, new_path.c_str(),
                               static_cast<unsigned>(flags));
        case op_code::unlink:
            return ::unlinkat(fd, path.c_str(), flags);
        case op_code::mkdir:
            return ::mkdirat(fd, path.c_str(), mode);
        case op_code::link:
            return ::linkat(fd, path.c_str(), new_directory, new_path.c_str(), flags);
        case op_code::symlink:
            return ::symlinkat(path.c_str(), new_directory, new_path.c_str());
        default:
            errno = EINVAL;
            return -1;
    }
}

// An offset of -1 is the file's own position.
ssize_t file_pool::job::transfer() noexcept {
    const iovec whole{memory.data, memory.size};
    const iovec* const pieces = vectored ? vector.pieces : &whole;
    const int count = vectored ? static_cast<int>(vector.count) : 1;
    const std::int64_t offset = vectored ? vector.offset : memory.offset;
    return code == op_code::read ? ::preadv2(fd, pieces, count, offset, 0)
                                 : ::pwritev2(fd, pieces, count, offset, 0);
}

void file_pool::job::run() noexcept {
    if (code == op_code::call) {
        result = call.function(call.context);
        return;
    }
    ssize_t value = 0;
    do {
        switch (code) {
            case op_code::open:
                value = open_for(fd, path.c_str(), flags, mode);
                break;
            case op_code::statx:
                value = ::statx(fd, path.c_str(), flags, mask, &found);
                break;
            case op_code::fsync:
                value = fsync.data_only ? ::fdatasync(fd) : ::fsync(fd);
                break;
            case op_code::read:
            case op_code::write:
                value = transfer();
                break;
            case op_code::close:
                value = ::close(fd);
                if (value < 0 && errno == EINTR) value = 0;  // Linux has closed it by then
                break;
            default:
                value = change_names();
                break;
        }
    } while (value < 0 && errno == EINTR);
    result = static_cast<std::int32_t>(value < 0 ? -errno : value);
}

file_pool::file_pool(unsigned threads_max, int wake_fd) noexcept
    : state_(std::make_shared<shared>()) {
    state_->threads_max = std::max(1U, threads_max);
    state_->wake_fd = wake_fd;
}

file_pool::~file_pool() {
    if (state_ == nullptr) return;
    std::list<shared::worker> workers;
    {
        const std::lock_guard lock(state_->mutex);
        state_->stopping = true;
        workers.swap(state_->workers);
    }
    state_->work_came.notify_all();
    for (shared::worker& each : workers) each.thread.join();
}

void file_pool::abandon() noexcept {
    // The mutex may be held for ever and the threads are gone: leak the state on purpose.
    static_cast<void>(new (std::nothrow) std::shared_ptr<shared>(state_));
    state_.reset();
}

bool file_pool::has_finished() const noexcept {
    return state_->has_done.load(std::memory_order_acquire);
}

int file_pool::post(operation& op) noexcept {
    try {
        auto next = std::make_unique<job>(op);
        const std::lock_guard lock(state_->mutex);
        state_->waiting.push_back(std::move(next));
        if (const int error = start_worker_if_needed(); error != 0) {
            state_->waiting.pop_back();
            return error;
        }
        state_->work_came.notify_one();
        return 0;
    } catch (const std::bad_alloc&) {
        return -ENOMEM;
    }
}

// The lock is held. Returns a negated errno if jobs wait and no worker is or will be there.
int file_pool::start_worker_if_needed() noexcept {
    if (state_->waiting.size() <= state_->idle || state_->workers.size() >= state_->threads_max)
        return 0;
    int error = 0;
    try {
        const detail::signals_blocked quiet;
        std::list<shared::worker> fresh(1);
        fresh.front().number = state_->next_number++;
        fresh.front().thread = std::thread(work, state_, fresh.front().number);
        state_->workers.splice(state_->workers.end(), fresh);
    } catch (const std::system_error& refused) {
        error = -refused.code().value();
    } catch (const std::bad_alloc&) {
        error = -ENOMEM;
    }
    return state_->workers.empty() ? error : 0;
}

bool file_pool::withdraw(operation& op) noexcept {
    const std::lock_guard lock(state_->mutex);
    auto& waiting = state_->waiting;
    const auto place = std::find_if(waiting.begin(), waiting.end(),
                                    [&](const auto& each) { return each->op == &op; });
    if (place != waiting.end()) {
        waiting.erase(place);
        return true;
    }
    for (auto each = state_->workers.begin(); each != state_->workers.end(); ++each) {
        if (each->current == nullptr || each->current->op != &op) continue;
        if (!each->current->owns_its_memory()) return false;
        each->current->op = nullptr;
        each->thread.detach();
        state_->workers.erase(each);
        if (const int error = start_worker_if_needed(); error != 0) fail_waiting(error);
        return true;
    }
    return false;  // it has finished
}

// The lock is held, and nobody is there to run them.
void file_pool::fail_waiting(int error) noexcept {
    for (; !state_->waiting.empty(); state_->waiting.pop_front()) {
        state_->waiting.front()->result = error;
        state_->finish(std::move(state_->waiting.front()));
    }
}

bool file_pool::collect(finished& next) noexcept {
    if (!has_finished()) return false;
    std::unique_ptr<job> first;
    {
        const std::lock_guard lock(state_->mutex);
        if (state_->done.empty()) return false;
        first = std::move(state_->done.front());
        state_->done.pop_front();
        if (state_->done.empty()) state_->has_done.store(false, std::memory_order_relaxed);
    }
    next = {first->op, first->result};
    if (first->code == op_code::statx && first->result == 0) {
        *first->op->arguments.statx.result = first->found;
    }
    return true;
}

void file_pool::work(const std::shared_ptr<shared>& state, std::uint64_t number) noexcept {
    std::unique_lock lock(state->mutex);
    const auto self = std::find_if(state->workers.begin(), state->workers.end(),
                                   [&](const auto& each) { return each.number == number; });
    for (;;) {
        ++state->idle;
        state->work_came.wait(lock, [&] { return !state->waiting.empty() || state->stopping; });
        --state->idle;
        if (state->waiting.empty()) return;
        std::unique_ptr<job> mine = std::move(state->waiting.front());
        state->waiting.pop_front();
        self->current = mine.get();
        lock.unlock();
        mine->run();
        lock.lock();
        if (mine->op == nullptr) {  // given up: this thread is detached, `self` is gone
            if (mine->code == op_code::open && mine->result >= 0) ::close(mine->result);
            return;
        }
        self->current = nullptr;
        state->finish(std::move(mine));
    }
}

}  // namespace ringloop
