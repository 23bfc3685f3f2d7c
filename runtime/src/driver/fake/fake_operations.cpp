// Operations: what each does to the simulated kernel, and how a fault changes it.
//
// An operation is tried when it is handed over and again whenever its object has changed. The
// moment at which it would succeed or fail is its step: there the fault is decided.
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "objects.hpp"
#include "ringloop/testing/fake_driver.hpp"

namespace ringloop::testing {
namespace {

bool needs_descriptor(const operation& op) noexcept {
    return op.code == op_code::fsync || (op.code != op_code::nop && !waits_for_disk(op.code));
}

bool takes_time(const operation& op, const simulated_object* target) noexcept {
    if (op.code == op_code::read || op.code == op_code::write)
        return target->kind == object_kind::file;
    return waits_for_disk(op.code);
}

// A one-shot receive may ask for less than a buffer.
std::size_t receive_size(const operation& op, std::size_t buffer_size) noexcept {
    const std::size_t asked = op.arguments.memory.size;
    return asked == 0 ? buffer_size : std::min(asked, buffer_size);
}

std::int64_t total(std::span<const iovec> pieces) noexcept {
    std::int64_t sum = 0;
    for (const iovec& piece : pieces) sum += static_cast<std::int64_t>(piece.iov_len);
    return sum;
}

std::int64_t asked_of(const operation& op) noexcept {
    switch (op.code) {
        case op_code::receive_into:
            return static_cast<std::int64_t>(op.arguments.memory.size);
        case op_code::read:
        case op_code::write:
            if (op.vectored) return total({op.arguments.vector.pieces, op.arguments.vector.count});
            return static_cast<std::int64_t>(op.arguments.memory.size);
        case op_code::send:
            return total(
                {op.arguments.send.message->msg_iov, op.arguments.send.message->msg_iovlen});
        default:
            return 0;
    }
}

std::uint32_t awaited_events(const operation& op, std::uint32_t ready) noexcept {
    return ready & (op.arguments.poll.events | POLLERR | POLLHUP);
}

std::size_t limit_of(const fault& injected, std::int64_t natural) noexcept {
    if (injected.kind != fault_kind::shorten || natural <= 1) return SIZE_MAX;
    const std::int64_t max = injected.value > 0 ? injected.value : natural + injected.value;
    return static_cast<std::size_t>(std::max<std::int64_t>(max, 1));
}

}  // namespace

void fake_driver::begin(flight& f, ticket who) {
    const operation& op = *f.op;
    if (op.fd >= 0) f.target = kernel_.find(op.fd);
    if (f.target != nullptr) kernel_.hold(*f.target);
    if (needs_descriptor(op) && f.target == nullptr) {
        f.at = stage::decided;
        emit(f, who, {.result = -EBADF}, {});
        return;
    }
    if (takes_time(op, f.target.get())) {
        f.at = stage::running;
        schedule(now_ns_ + file_latency_ns_, ++sequence_, event_kind::attempt, who);
        return;
    }
    if (op.code == op_code::connect) {
        const connect_arguments& to = op.arguments.connect;
        f.connecting = kernel_.connect_waits(*f.target, to.address, to.size);
        if (f.connecting) kernel_.connect(f.target, to.address, to.size);
    }
    attempt(f, who);
}

bool fake_driver::would_block(const flight& f) const noexcept {
    const operation& op = *f.op;
    if (f.target == nullptr) return false;
    const simulated_object& target = *f.target;
    switch (op.code) {
        case op_code::accept:
            return target.kind == object_kind::listener && target.backlog.empty();
        case op_code::receive:
            return !free_buffers_.empty() && kernel_.receivable(target) == -EAGAIN;
        case op_code::receive_into:
        case op_code::read:
            return !kernel_.is_file(target) && kernel_.receivable(target) == -EAGAIN;
        case op_code::send:
        case op_code::write:
            return !kernel_.is_file(target) && kernel_.sendable(target) == -EAGAIN;
        case op_code::poll:
            return awaited_events(op, kernel_.ready_events(target)) == 0;
        case op_code::connect:
            return f.connecting && target.state == socket_state::connecting && target.error == 0;
        default:
            return false;
    }
}

// What the step would bring without a fault, as far as faults depend on it.
std::int64_t fake_driver::natural_result(const flight& f) const noexcept {
    const operation& op = *f.op;
    if (f.target == nullptr) return 0;
    const auto bounded = [](std::int64_t there, std::int64_t most) {
        return there < 0 ? there : std::min(there, most);
    };
    switch (op.code) {
        case op_code::receive:
            return bounded(kernel_.receivable(*f.target),
                           static_cast<std::int64_t>(receive_size(op, buffer_size())));
        case op_code::receive_into:
            return bounded(kernel_.receivable(*f.target), asked_of(op));
        case op_code::read:
            return kernel_.is_file(*f.target)
                       ? asked_of(op)
                       : bounded(kernel_.receivable(*f.target), asked_of(op));
        case op_code::send:
        case op_code::write:
            return kernel_.is_file(*f.target) ? asked_of(op)
                                              : bounded(kernel_.sendable(*f.target), asked_of(op));
        default:
            return 0;
    }
}

void fake_driver::attempt(flight& f, ticket who) {
    for (;;) {
        if (would_block(f)) {
            f.at = stage::waiting;
            f.target->parked.push_back(who);
            return;
        }
        const bool was_held_back = f.at == stage::held_back;
        step_record step;
        step.kind = static_cast<step_kind>(f.op->code);
        step.multishot = f.op->multishot;
        step.fd = f.op->fd;
        step.asked = asked_of(*f.op);
        step.result = natural_result(f);
        std::size_t place = 0;
        const fault injected = was_held_back ? fault{} : next_fault(step, place);
        if (injected.kind == fault_kind::slow) {
            f.at = stage::held_back;
            schedule(now_ns_ + injected.value, ++sequence_, event_kind::attempt, who);
            return;
        }
        f.at = stage::decided;
        completion result = perform(f, injected);
        if (result.result == -EAGAIN && f.op->code == op_code::connect && was_held_back) {
            f.connecting = true;
            continue;
        }
        if (!was_held_back) record_[place].result = result.result;
        if (injected.kind == fault_kind::end_multishot) result.more = false;
        emit(f, who, result, injected);
        if (!result.more) return;
        if (f.op->code == op_code::poll) {  // tells of changes, not of a state
            f.at = stage::waiting;
            f.target->parked.push_back(who);
            return;
        }
    }
}

// The operation fails with `number` before it has done anything, except what the error means.
int fake_driver::perform_failed(flight& f, int number) {
    const op_code code = f.op->code;
    if (code == op_code::close) kernel_.close(f.op->fd);
    if (f.target == nullptr) return -number;
    if (number == ECONNRESET || number == EPIPE) kernel_.break_stream(*f.target);
    if (code == op_code::accept && number == ECONNABORTED)
        kernel_.abort_waiting_connection(*f.target);
    return -number;
}

completion fake_driver::perform(flight& f, const fault& injected) {
    const operation& op = *f.op;
    if (injected.kind == fault_kind::error)
        return {.result = perform_failed(f, static_cast<int>(injected.value))};
    if (injected.kind == fault_kind::starve) return {.result = -ENOBUFS};
    if (injected.kind == fault_kind::end_of_stream) return {.result = 0};
    const std::size_t max = limit_of(injected, natural_result(f));
    const std::size_t size = std::min(max, static_cast<std::size_t>(asked_of(op)));
    completion c;
    switch (op.code) {
        case op_code::accept:
            c.result = kernel_.accept(*f.target);
            c.more = op.multishot && c.result >= 0;
            break;
        case op_code::connect:
            c.result = f.connecting && f.target->state == socket_state::connected
                           ? 0
                           : kernel_.connect(f.target, op.arguments.connect.address,
                                             op.arguments.connect.size);
            break;
        case op_code::receive:
            return perform_receive(f, max);
        case op_code::receive_into: {
            const iovec piece = {op.arguments.memory.data, size};
            c.result = static_cast<int>(kernel_.receive(*f.target, {&piece, 1}, size));
            break;
        }
        case op_code::send: {
            const msghdr& message = *op.arguments.send.message;
            c.result = static_cast<int>(
                kernel_.send(*f.target, {message.msg_iov, message.msg_iovlen}, size));
            break;
        }
        case op_code::poll:
            c.result = static_cast<int>(awaited_events(op, kernel_.ready_events(*f.target)));
            c.more = op.multishot;
            break;
        default:
            c.result = static_cast<int>(perform_file(f, size));
    }
    return c;
}

completion fake_driver::perform_receive(flight& f, std::size_t max) {
    if (free_buffers_.empty()) return {.result = -ENOBUFS};
    const buffer_id id = free_buffers_.back();
    std::byte* memory = buffer(id);
    const auto poisoned = [&](std::byte b) { return b == std::byte{0xdb}; };
    if (!std::all_of(memory, memory + buffer_size(), poisoned))
        violations_.push_back("buffer " + std::to_string(id) + " was written to while it was free");
    const std::size_t asked = f.op->arguments.memory.size;
    if (asked != 0) max = std::min(max, asked);
    const iovec piece = {memory, buffer_size()};
    completion c;
    c.result = static_cast<int>(
        kernel_.receive(*f.target, {&piece, 1}, std::min(max, receive_size(*f.op, buffer_size()))));
    c.more = f.op->multishot && c.result > 0;
    // The end of a stream may or may not come with a buffer: both are seen from kernels.
    if (c.result > 0 || (c.result == 0 && (sequence_ & 1) != 0)) {
        free_buffers_.pop_back();
        lent_[id] = true;
        c.buffer = id;
    }
    return c;
}

std::int64_t fake_driver::perform_file(flight& f, std::size_t max) {
    const operation& op = *f.op;
    switch (op.code) {
        case op_code::open:
            return kernel_.open(op.fd < 0 ? AT_FDCWD : op.fd, op.arguments.open.path,
                                op.arguments.open.flags, op.arguments.open.mode);
        case op_code::read:
        case op_code::write:
            return transfer(f, max);
        case op_code::statx:
            return kernel_.describe(op.fd < 0 ? AT_FDCWD : op.fd, op.arguments.statx.path,
                                    op.arguments.statx.flags, op.arguments.statx.result);
        case op_code::fsync:
            return kernel_.is_file(*f.target) ? 0 : -EINVAL;
        case op_code::close:
            return kernel_.close(op.fd);
        case op_code::call:
            return op.arguments.call.function(op.arguments.call.context);
        default:
            return perform_naming(op);
    }
}

// At most `max` bytes; a file's go on where the piece before ended.
std::int64_t fake_driver::transfer(flight& f, std::size_t max) {
    const operation& op = *f.op;
    const bool reads = op.code == op_code::read;
    const memory_arguments& m = op.arguments.memory;
    const vector_arguments& v = op.arguments.vector;
    const iovec whole = op.vectored ? iovec{} : iovec{m.data, m.size};
    const auto pieces = op.vectored ? std::span(v.pieces, v.count) : std::span(&whole, 1);
    if (!kernel_.is_file(*f.target)) {
        return reads ? kernel_.receive(*f.target, pieces, max)
                     : kernel_.send(*f.target, pieces, max);
    }
    const std::int64_t offset = op.vectored ? v.offset : m.offset;
    std::size_t done = 0;
    for (const iovec& piece : pieces) {
        const std::size_t size = std::min(piece.iov_len, max - done);
        const std::int64_t at = offset < 0 ? offset : offset + static_cast<std::int64_t>(done);
        const ssize_t count = reads ? kernel_.read_file(*f.target, piece.iov_base, size, at)
                                    : kernel_.write_file(*f.target, piece.iov_base, size, at);
        if (count < 0) return count;
        done += static_cast<std::size_t>(count);
        if (static_cast<std::size_t>(count) < piece.iov_len) break;
    }
    return static_cast<std::int64_t>(done);
}

std::int64_t fake_driver::perform_naming(const operation& op) {
    const int directory = op.fd < 0 ? AT_FDCWD : op.fd;
    const path_arguments& one = op.arguments.path;
    const two_paths_arguments& two = op.arguments.paths;
    switch (op.code) {
        case op_code::rename:
            return kernel_.rename(directory, two.path, two.new_directory, two.new_path, two.flags);
        case op_code::unlink:
            return kernel_.unlink(directory, one.path, one.flags);
        case op_code::mkdir:
            return kernel_.make_directory(directory, one.path, one.mode);
        case op_code::link:
            return kernel_.link(directory, two.path, two.new_directory, two.new_path);
        case op_code::symlink:
            return kernel_.make_symlink(two.path, two.new_directory, two.new_path);
        default:
            return 0;
    }
}

// Puts a completion on its way. The last one lets go of the object: what the kernel does then is
// visible to others before the owner hears of it.
void fake_driver::emit(flight& f, ticket who, completion result, const fault& injected) {
    std::int64_t time = now_ns_;
    std::uint64_t key = ++sequence_;
    if (injected.kind == fault_kind::late) time += injected.value;
    if (injected.kind == fault_kind::reorder) key += 1'000'000'000;
    if (chance(random_.latencies))
        time += static_cast<std::int64_t>(random() %
                                          static_cast<std::uint64_t>(random_.latency_max_ns));
    if (chance(random_.disorder)) key = random() % (2 * sequence_);
    time = std::max(time, f.last_ns);
    if (time == f.last_ns) key = std::max(key, f.last_key + 1);
    f.last_ns = time;
    f.last_key = key;
    schedule(time, key, event_kind::deliver, who, result);
    if (result.more) return;
    f.at = stage::decided;
    if (f.target != nullptr) {
        kernel_.drop(*f.target);
        f.target = nullptr;
    }
}

void fake_driver::carry_out_cancel(ticket who, bool again) {
    flight* f = find(who);
    if (f == nullptr || f->at == stage::decided) return;
    step_record step;
    step.kind = step_kind::cancel;
    step.fd = f->op->fd;
    step.running = f->at == stage::running;
    step.result = step.running ? -EALREADY : 0;
    std::size_t place = 0;
    const fault injected = again ? fault{} : next_fault(step, place);
    if (injected.kind == fault_kind::late) {
        schedule(now_ns_ + injected.value, ++sequence_, event_kind::cancel, who);
        return;
    }
    if (step.running && injected.kind != fault_kind::cancel_wins) return;
    if (f->target != nullptr) {
        std::erase(f->target->parked, who);
        if (f->op->code == op_code::connect && f->target->state == socket_state::connecting)
            f->target->state = socket_state::fresh;
    }
    emit(*f, who, {.result = -ECANCELED}, {});
}

void fake_driver::retry_changed() {
    if (retrying_) return;
    retrying_ = true;
    while (!changed_.empty()) {
        for (const object_ref& object : std::exchange(changed_, {})) {
            for (const ticket who : std::exchange(object->parked, {})) {
                flight* f = find(who);
                if (f != nullptr && f->at == stage::waiting) attempt(*f, who);
            }
        }
    }
    retrying_ = false;
}

}  // namespace ringloop::testing
