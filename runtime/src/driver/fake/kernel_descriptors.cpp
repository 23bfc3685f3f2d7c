// The descriptor table, and what happens when the last holder of an object leaves.
#include <cassert>
#include <cerrno>
#include <sstream>

#include "objects.hpp"

namespace ringloop::testing {

simulated_kernel::simulated_kernel(const kernel_limits& limits) : limits_(limits) {
    add_directory("/");
    if (limits.foreign_descriptors)
        foreign_ = std::make_shared<simulated_object>(object_kind::foreign);
}

simulated_kernel::~simulated_kernel() = default;

object_ref simulated_kernel::find(int fd) const noexcept {
    if (fd >= 0 && fd < first_descriptor) return foreign_;
    const auto index = static_cast<std::size_t>(fd - first_descriptor);
    if (fd < first_descriptor || index >= table_.size()) return nullptr;
    return table_[index];
}

int simulated_kernel::install(const object_ref& object) {
    std::size_t index = 0;
    while (index < table_.size() && table_[index] != nullptr) ++index;
    if (index >= limits_.descriptors_max) return -EMFILE;
    if (index == table_.size()) table_.emplace_back();
    table_[index] = object;
    ++open_;
    hold(*object);
    return first_descriptor + static_cast<int>(index);
}

int simulated_kernel::close(int fd) {
    const object_ref object = find(fd);
    if (object == nullptr || object == foreign_) return -EBADF;
    table_[static_cast<std::size_t>(fd - first_descriptor)] = nullptr;
    --open_;
    drop(*object);
    return 0;
}

int simulated_kernel::duplicate(int fd) {
    const object_ref object = find(fd);
    return object == nullptr ? -EBADF : install(object);
}

void simulated_kernel::hold(simulated_object& object) noexcept {
    ++object.holders;
}

void simulated_kernel::drop(simulated_object& object) {
    assert(object.holders > 0);
    if (--object.holders == 0) last_holder_left(object);
}

void simulated_kernel::last_holder_left(simulated_object& object) {
    if (object.kind == object_kind::listener) {
        while (abort_waiting_connection(object)) {
        }
        for (const auto& waiting : object.waiting) {
            const object_ref socket = waiting.lock();
            if (socket == nullptr || socket->state != socket_state::connecting) continue;
            socket->state = socket_state::fresh;
            socket->error = ECONNREFUSED;
            changed(*socket);
        }
        object.waiting.clear();
    }
    if (object.datagrams) tell_waiting_senders(object);
    const object_ref other = object.other.lock();
    const auto linger = object.options.find({SOL_SOCKET, SO_LINGER});
    bool abort = object.in != nullptr && object.in->size() > 0 && is_socket(object);
    if (linger != object.options.end() && linger->second.size() >= sizeof(struct linger)) {
        struct linger value = {};
        std::memcpy(&value, linger->second.data(), sizeof value);
        abort = abort || (value.l_onoff != 0 && value.l_linger == 0);
    }
    if (object.in != nullptr) object.in->deaf = true;
    if (object.out != nullptr) object.out->ended = true;
    if (other == nullptr) return;
    if (abort && !other->dead) {
        other->error = ECONNRESET;
        other->dead = true;
    }
    changed(*other);
}

void simulated_kernel::changed(simulated_object& object) const {
    if (on_change) on_change(object);
}

std::string simulated_kernel::describe_descriptors() const {
    static constexpr const char* kinds[] = {"socket",      "listener", "pipe reader",
                                            "pipe writer", "file",     "foreign"};
    std::ostringstream text;
    for (std::size_t i = 0; i < table_.size(); ++i) {
        if (table_[i] == nullptr) continue;
        text << "  " << first_descriptor + static_cast<int>(i) << " "
             << kinds[static_cast<int>(table_[i]->kind)] << " " << table_[i]->path << "\n";
    }
    return text.str();
}

}  // namespace ringloop::testing
