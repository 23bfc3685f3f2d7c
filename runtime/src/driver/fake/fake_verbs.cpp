// The immediate and the cold verbs: one step each.
#include <cerrno>

#include "objects.hpp"
#include "ringloop/testing/fake_driver.hpp"
#include "ringloop/testing/kernel_memory.hpp"

namespace ringloop::testing {
namespace {

std::size_t total(std::span<const iovec> pieces) noexcept {
    std::size_t sum = 0;
    for (const iovec& piece : pieces) sum += piece.iov_len;
    return sum;
}

std::size_t shortened(const fault& injected, std::int64_t natural) noexcept {
    if (injected.kind != fault_kind::shorten || natural <= 0) return SIZE_MAX;
    const std::int64_t max = injected.value > 0 ? injected.value : natural + injected.value;
    return static_cast<std::size_t>(max < 1 ? 1 : max);
}

}  // namespace

int fake_driver::cold_verb(step_kind kind, int fd,
                           const std::function<int(simulated_object&)>& act) {
    step_record step;
    step.kind = kind;
    step.fd = fd;
    std::size_t place = 0;
    const fault injected = next_fault(step, place);
    const object_ref object = kernel_.find(fd);
    int result = -EBADF;
    if (injected.kind == fault_kind::error) {
        result = -static_cast<int>(injected.value);
    } else if (object != nullptr) {
        result = act(*object);
    }
    record_[place].result = result;
    retry_changed();
    return result;
}

std::int64_t fake_driver::moving_natural(step_kind kind, const object_ref& object) const noexcept {
    if (object == nullptr) return INT64_MAX;
    switch (kind) {
        case step_kind::try_send:
            return kernel_.sendable(*object);
        case step_kind::try_receive:
            return kernel_.receivable(*object);
        case step_kind::try_recvmmsg:
            return kernel_.datagrams_waiting(*object);
        default:
            return INT64_MAX;
    }
}

ssize_t fake_driver::moving_verb(
    step_kind kind, int fd, std::size_t asked,
    const std::function<ssize_t(simulated_object&, std::size_t)>& act) {
    const object_ref object = kernel_.find(fd);
    step_record step;
    step.kind = kind;
    step.fd = fd;
    step.asked = static_cast<std::int64_t>(asked);
    step.result = std::min(step.asked, moving_natural(kind, object));
    std::size_t place = 0;
    const fault injected = next_fault(step, place);
    ssize_t result = -EBADF;
    if (injected.kind == fault_kind::error) {
        result = -static_cast<ssize_t>(injected.value);
        if (object != nullptr && (injected.value == ECONNRESET || injected.value == EPIPE))
            kernel_.break_stream(*object);
    } else if (injected.kind == fault_kind::end_of_stream) {
        result = 0;
    } else if (object != nullptr) {
        result = act(*object, std::min(asked, shortened(injected, step.result)));
    }
    record_[place].result = result;
    retry_changed();
    return result;
}

ssize_t fake_driver::try_send(int fd, std::span<const iovec> pieces) noexcept {
    const kernel_memory own;
    return moving_verb(step_kind::try_send, fd, total(pieces),
                       [&](simulated_object& object, std::size_t max) {
                           return kernel_.send(object, pieces, max);
                       });
}

ssize_t fake_driver::try_receive(int fd, std::span<const iovec> pieces) noexcept {
    const kernel_memory own;
    return moving_verb(step_kind::try_receive, fd, total(pieces),
                       [&](simulated_object& object, std::size_t max) {
                           return kernel_.receive(object, pieces, max);
                       });
}

int fake_driver::try_recvmmsg(int fd, std::span<mmsghdr> messages) noexcept {
    const kernel_memory own;
    return static_cast<int>(moving_verb(step_kind::try_recvmmsg, fd, messages.size(),
                                        [&](simulated_object& object, std::size_t max) {
                                            return kernel_.receive_datagrams(object,
                                                                             messages.first(max));
                                        }));
}

int fake_driver::try_sendmmsg(int fd, std::span<mmsghdr> messages) noexcept {
    const kernel_memory own;
    return static_cast<int>(moving_verb(step_kind::try_sendmmsg, fd, messages.size(),
                                        [&](simulated_object& object, std::size_t max) {
                                            return kernel_.send_datagrams(object,
                                                                          messages.first(max));
                                        }));
}

ssize_t fake_driver::try_pread(int fd, void* data, std::size_t size, std::int64_t offset) noexcept {
    const kernel_memory own;
    return moving_verb(step_kind::try_pread, fd, size,
                       [&](simulated_object& object, std::size_t max) -> ssize_t {
                           if (!kernel_.is_file(object)) return -ESPIPE;
                           return kernel_.read_file(object, data, max, offset);
                       });
}

ssize_t fake_driver::try_write(int fd, std::span<const iovec> pieces) noexcept {
    const kernel_memory own;
    return try_send(fd, pieces);
}

int fake_driver::close(int fd) noexcept {
    const kernel_memory own;
    step_record step;
    step.kind = step_kind::try_close;
    step.fd = fd;
    std::size_t place = 0;
    const fault injected = next_fault(step, place);
    int result = kernel_.close(fd);  // Linux frees the number whatever it answers
    if (result == 0 && injected.kind == fault_kind::error)
        result = -static_cast<int>(injected.value);
    record_[place].result = result;
    retry_changed();
    return result;
}

// No step of its own: it has no faults worth a run.
int fake_driver::inspect(int fd, descriptor_facts& facts) noexcept {
    const kernel_memory own;
    const object_ref object = kernel_.find(fd);
    if (object == nullptr) return -EBADF;
    facts.positional = kernel_.is_file(*object);
    facts.directory = object->file != nullptr && object->file->directory;
    facts.size = facts.positional && object->file != nullptr
                     ? static_cast<std::int64_t>(object->file->bytes.size())
                     : 0;
    return 0;
}

int fake_driver::make_socket(int domain, int type, int protocol) noexcept {
    const kernel_memory own;
    step_record step;
    step.kind = step_kind::make_socket;
    std::size_t place = 0;
    const fault injected = next_fault(step, place);
    const int result = injected.kind == fault_kind::error
                           ? -static_cast<int>(injected.value)
                           : kernel_.make_socket(domain, type, protocol);
    record_[place].result = result;
    return result;
}

int fake_driver::make_pipe(int (&ends)[2]) noexcept {
    const kernel_memory own;
    step_record step;
    step.kind = step_kind::make_socket;
    std::size_t place = 0;
    const fault injected = next_fault(step, place);
    const int result =
        injected.kind == fault_kind::error ? -static_cast<int>(injected.value) : kernel_.pipe(ends);
    record_[place].result = result;
    return result;
}

int fake_driver::bind(int fd, const sockaddr* address, socklen_t size) noexcept {
    const kernel_memory own;
    return cold_verb(step_kind::bind, fd,
                     [&](simulated_object& object) { return kernel_.bind(object, address, size); });
}

int fake_driver::listen(int fd, int backlog) noexcept {
    const kernel_memory own;
    return cold_verb(step_kind::listen, fd,
                     [&](simulated_object& object) { return kernel_.listen(object, backlog); });
}

int fake_driver::shutdown(int fd, int how) noexcept {
    const kernel_memory own;
    return cold_verb(step_kind::shutdown, fd,
                     [&](simulated_object& object) { return kernel_.shutdown(object, how); });
}

int fake_driver::set_option(int fd, int level, int option, const void* value,
                            socklen_t size) noexcept {
    const kernel_memory own;
    return cold_verb(step_kind::set_option, fd, [&](simulated_object& object) {
        return kernel_.set_option(object, level, option, value, size);
    });
}

int fake_driver::get_option(int fd, int level, int option, void* value, socklen_t* size) noexcept {
    const kernel_memory own;
    return cold_verb(step_kind::get_option, fd, [&](simulated_object& object) {
        return kernel_.get_option(object, level, option, value, size);
    });
}

int fake_driver::local_address(int fd, sockaddr* address, socklen_t* size) noexcept {
    const kernel_memory own;
    return cold_verb(step_kind::local_address, fd, [&](simulated_object& object) {
        return kernel_.local_address(object, address, size);
    });
}

int fake_driver::peer_address(int fd, sockaddr* address, socklen_t* size) noexcept {
    const kernel_memory own;
    return cold_verb(step_kind::peer_address, fd, [&](simulated_object& object) {
        return kernel_.peer_address(object, address, size);
    });
}

}  // namespace ringloop::testing
