// echo_uring: a bare liburing echo server with the runtime's choices: COOP_TASKRUN, multishot
// accept and receive into a small ring of buffers, direct sends. Shows what the runtime's layers
// cost.
#include <liburing.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "listening.hpp"

namespace {

constexpr unsigned buffer_count = 64;
constexpr unsigned buffer_size = 65536;
constexpr unsigned rearm_max = 32;
constexpr std::uint64_t accept_tag = ~std::uint64_t{0};

io_uring ring;
io_uring_buf_ring* pool;
char* memory;
std::vector<int> starved;

io_uring_sqe* next_sqe() {
    io_uring_sqe* sqe = ::io_uring_get_sqe(&ring);
    while (sqe == nullptr) {
        ::io_uring_submit(&ring);
        sqe = ::io_uring_get_sqe(&ring);
    }
    return sqe;
}

void arm_accept(int listener) {
    io_uring_sqe* sqe = next_sqe();
    ::io_uring_prep_multishot_accept(sqe, listener, nullptr, nullptr, SOCK_CLOEXEC);
    ::io_uring_sqe_set_data64(sqe, accept_tag);
}

void arm_receive(int fd) {
    io_uring_sqe* sqe = next_sqe();
    ::io_uring_prep_recv_multishot(sqe, fd, nullptr, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    ::io_uring_sqe_set_data64(sqe, static_cast<std::uint64_t>(fd));
}

void give_back(unsigned id) {
    ::io_uring_buf_ring_add(pool, memory + std::size_t{id} * buffer_size, buffer_size,
                            static_cast<unsigned short>(id), ::io_uring_buf_ring_mask(buffer_count),
                            0);
    ::io_uring_buf_ring_advance(pool, 1);
}

void set_up() {
    io_uring_params parameters{};
    parameters.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE;
    parameters.cq_entries = 4096;
    require(::io_uring_queue_init_params(256, &ring, &parameters) == 0, "io_uring");
    memory = static_cast<char*>(std::aligned_alloc(4096, std::size_t{buffer_count} * buffer_size));
    require(::posix_memalign(reinterpret_cast<void**>(&pool), 4096,
                             buffer_count * sizeof(io_uring_buf)) == 0,
            "memory");
    ::io_uring_buf_ring_init(pool);
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<std::uint64_t>(pool);
    registration.ring_entries = buffer_count;
    require(::io_uring_register_buf_ring(&ring, &registration, 0) == 0, "buffer ring");
    for (unsigned i = 0; i < buffer_count; ++i) give_back(i);
}

void send_all(int fd, const char* data, std::size_t size) {
    while (size != 0) {
        const ssize_t sent = ::send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0) return;  // blocking sockets: an error, and the receive will see it
        data += sent;
        size -= static_cast<std::size_t>(sent);
    }
}

void handle(const io_uring_cqe& cqe, int listener) {
    const bool more = (cqe.flags & IORING_CQE_F_MORE) != 0;
    if (cqe.user_data == accept_tag) {
        if (cqe.res >= 0) arm_receive(cqe.res);
        if (!more) arm_accept(listener);
        return;
    }
    const int fd = static_cast<int>(cqe.user_data);
    if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) {
        const unsigned id = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
        if (cqe.res > 0)
            send_all(fd, memory + std::size_t{id} * buffer_size, static_cast<std::size_t>(cqe.res));
        give_back(id);
    }
    if (more) return;
    if (cqe.res == -ENOBUFS) {
        starved.push_back(fd);
    } else if (cqe.res > 0) {
        arm_receive(fd);
    } else {
        ::close(fd);
    }
}

}  // namespace

int main() {
    set_up();
    const int listener = listen_and_print(0);
    arm_accept(listener);
    std::size_t first = 0;
    while (true) {
        for (unsigned i = 0; i < rearm_max && first != starved.size(); ++i)
            arm_receive(starved[first++]);
        if (first == starved.size()) {
            starved.clear();
            first = 0;
        }
        ::io_uring_submit_and_wait(&ring, starved.empty() ? 1 : 0);
        unsigned head = 0;
        unsigned seen = 0;
        io_uring_cqe* cqe = nullptr;
        io_uring_for_each_cqe(&ring, head, cqe) {
            handle(*cqe, listener);
            ++seen;
        }
        ::io_uring_cq_advance(&ring, seen);
    }
}
