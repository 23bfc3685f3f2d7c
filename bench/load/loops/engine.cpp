// The closed loop. Every answer is followed by its connection's next request, or by a pause.
#include "engine.hpp"
#include "clock.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "server_cpu.hpp"

namespace load {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t silence_ns = 4 * second_ns;  // after which the server has failed
constexpr std::int64_t repeat_ns = second_ns / 20;  // of a datagram without an answer
constexpr std::size_t open_at_once = 256;           // fewer than any server's backlog

}  // namespace

engine::engine(const options& wanted)
    : wanted_(wanted),
      tls_(wanted.kind == "tls" ? std::make_unique<tls_client>() : nullptr),
      wrote_(wanted.connections),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    for (std::size_t index = 0; index < wanted.connections; ++index)
        clients_.push_back(std::make_unique<client>(wanted_, index, tls_.get()));
}

engine::~engine() {
    close(epoll_);
}

void engine::watch(std::size_t index, int change) {
    client& one = *clients_[index];
    wrote_[index] = one.wants_write();
    epoll_event event{};
    event.events = EPOLLIN | (wrote_[index] ? static_cast<unsigned>(EPOLLOUT) : 0U);
    event.data.u64 = index;
    if (epoll_ctl(epoll_, change, one.descriptor(), &event) != 0)
        throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

// The backlog of a server is bounded: the last of each group has its answer before the next opens.
void engine::open_all() {
    heard_ns_ = now_ns();
    for (std::size_t index = 0; index < clients_.size(); ++index) {
        clients_[index]->open();
        watch(index, EPOLL_CTL_ADD);
        const bool last = index + 1 == clients_.size() || (index + 1) % open_at_once == 0;
        const std::uint64_t before = answers_;
        while (last && clients_[index]->waits() &&
               !(answers_ != before && wanted_.life != life::keep))
            turn();
    }
    while (std::any_of(clients_.begin(), clients_.end(), [this](const auto& each) {
        return each->waits() && wanted_.life == life::keep;
    }))
        turn();
}

int engine::wait_ms() const {
    if (wanted_.kind == "udp") return 10;
    return pauses_ ? pauses_->wait_ms(now_ns()) : 100;
}

void engine::turn() {
    epoll_event events[256];
    const int count = epoll_wait(epoll_, events, 256, wait_ms());
    const std::int64_t now = now_ns();
    if (count > 0) heard_ns_ = now;
    if (count == 0 && now - heard_ns_ > silence_ns &&
        std::any_of(clients_.begin(), clients_.end(),
                    [](const auto& each) { return each->waits(); }))
        throw std::runtime_error("no answer for four seconds");
    for (int at = 0; at < count; ++at) {
        const std::size_t index = events[at].data.u64;
        if (index == clients_.size())
            flood_->advance();
        else
            handle(index);
    }
    if (wanted_.kind == "udp") repeat_old();
    begin_due();
}

void engine::handle(std::size_t index) {
    client& one = *clients_[index];
    if (one.advance())
        finished(index);
    else if (wrote_[index] != one.wants_write())
        watch(index, EPOLL_CTL_MOD);
}

void engine::finished(std::size_t index) {
    client& one = *clients_[index];
    ++answers_;
    if (measuring_)
        outcome_.latencies_ns.push_back(static_cast<std::uint32_t>(
            std::min<std::int64_t>(now_ns() - one.began_ns(), UINT32_MAX)));
    if (wanted_.life != life::keep) {
        one.open();
        watch(index, EPOLL_CTL_ADD);
    } else if (pauses_) {
        if (wanted_.per_second > 0) {
            pauses_->rest(index, one.began_ns());
        } else {
            one.begin();
        }
        if (wrote_[index] != one.wants_write()) watch(index, EPOLL_CTL_MOD);
    }
}

void engine::begin_due() {
    while (pauses_ && wanted_.life == life::keep && pauses_->has_due(now_ns())) {
        const std::size_t index = pauses_->take();
        clients_[index]->begin();
        if (wrote_[index] != clients_[index]->wants_write()) watch(index, EPOLL_CTL_MOD);
    }
}

void engine::repeat_old() {
    const std::int64_t now = now_ns();
    for (const auto& one : clients_)
        if (one->waits() && now - one->began_ns() > repeat_ns && !one->wants_write()) {
            one->repeat();
            ++outcome_.repeated;
        }
}

outcome engine::run() {
    open_all();
    if (wanted_.flood) {
        flood_ = std::make_unique<flood>(wanted_);
        epoll_event event{};
        event.events = EPOLLIN | EPOLLOUT;
        event.data.u64 = clients_.size();
        epoll_ctl(epoll_, EPOLL_CTL_ADD, flood_->descriptor(), &event);
    }
    pauses_ = std::make_unique<pauses>(clients_.size(), wanted_.per_second, now_ns());
    const auto ns = [](double seconds) { return static_cast<std::int64_t>(seconds * 1e9); };
    const std::int64_t warm_until_ns = now_ns() + ns(wanted_.warm_seconds);
    while (now_ns() < warm_until_ns) turn();
    outcome_ = {};
    outcome_.latencies_ns.reserve(1 << 20);
    measuring_ = true;
    const std::size_t flooded = flood_ ? flood_->received() : 0;
    const std::int64_t cpu_ns = server_cpu_ns(wanted_.server_pid);
    const std::int64_t from_ns = now_ns();
    // The answers of slow cells are waited for: one at least was measured.
    while (now_ns() < from_ns + ns(wanted_.seconds) || outcome_.latencies_ns.empty()) turn();
    outcome_.seconds = static_cast<double>(now_ns() - from_ns) / 1e9;
    outcome_.server_cpu_seconds =
        static_cast<double>(server_cpu_ns(wanted_.server_pid) - cpu_ns) / 1e9;
    outcome_.flood_bytes = flood_ ? flood_->received() - flooded : 0;
    return std::move(outcome_);
}

}  // namespace load
