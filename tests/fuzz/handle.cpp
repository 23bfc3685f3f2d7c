// Target: the loop's side of a shared handle, under a producer that writes anything anywhere.
#include <array>
#include <cstring>
#include <optional>
#include <set>

#include "ringloop/bridge/core/handle_consumer.hpp"
#include "target.hpp"

namespace fuzz {
namespace {

using ringloop::bridge::handle_consumer;

struct shared {
    static constexpr std::uint32_t lanes = 3, slots = 4;
    shared() {
        ringloop_handle_place(&view, memory.data(), lanes, slots);
        view.lane = -1;
        view.wake_fd = view.alive_fd = -1;
        consumer.emplace(view);
    }
    // Bytes of the memory, as a producer's.
    [[nodiscard]] std::uint8_t* at(std::size_t place) {
        return reinterpret_cast<std::uint8_t*>(memory.data()) + place % size;
    }
    struct alignas(64) line {
        std::array<std::byte, 64> bytes;
    };
    const std::size_t size = ringloop_handle_memory_size(lanes, slots);
    std::vector<line> memory = std::vector<line>(size / sizeof(line) + 1);
    ringloop_handle view{};
    std::optional<handle_consumer> consumer;
    std::set<const void*> waiting;
    std::array<ringloop_token, 64> tokens{};
};

void run_handle(bytes data) {
    choices in(data);
    shared s;
    std::array<char, 64> owners{};
    const auto heard = [&](void* owner) {
        must(s.waiting.erase(owner) == 1, "an owner hears once, and only who waits");
    };
    for (int steps = 0; !in.empty() && steps < 2000; ++steps) {
        const std::size_t who = in.below(owners.size());
        const auto lane = static_cast<unsigned>(in.below(shared::lanes));
        switch (in.below(7)) {
            case 0:
            case 1:
                if (s.waiting.count(&owners[who]) != 0) break;
                if (s.consumer->reserve(lane, &owners[who], s.tokens[who]) ==
                    handle_consumer::reservation::made)
                    s.waiting.insert(&owners[who]);
                break;
            case 2:
                static_cast<void>(ringloop_handle_complete_int(&s.view, s.tokens[who], 1));
                break;
            case 3:
                if (s.waiting.erase(&owners[who]) != 0) s.consumer->abandon(s.tokens[who]);
                break;
            case 4:
                s.consumer->drain([&](void* owner, const ringloop_record& record) {
                    must(record.size <= RINGLOOP_HANDLE_BYTES_MAX, "no record is longer than one");
                    heard(owner);
                });
                break;
            case 5:
                s.consumer->end_lane(lane, heard);
                break;
            default:  // a hostile one: a bit, or a copy of another place
                if (in.below(2) != 0) {
                    *s.at(in.word() >> 48) ^= static_cast<std::uint8_t>(1U << in.below(8));
                } else {
                    *s.at(in.word() >> 48) = *s.at(in.word() >> 48);
                }
        }
        must(s.waiting.size() <= s.consumer->reserved(), "who waits has a slot");
    }
    for (unsigned lane = 0; lane < shared::lanes; ++lane) s.consumer->end_lane(lane, heard);
    must(s.waiting.empty() && s.consumer->reserved() == 0, "the end of its lane ends every wait");
}
const registered handle_memory("handle_memory", run_handle);

}  // namespace
}  // namespace fuzz
