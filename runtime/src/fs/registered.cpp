// registered_memory: pinned where that can be, and let go with its scheduler. See the header.
#include "ringloop/fs/registered.hpp"

#include <stdexcept>
#include <utility>

#include "ringloop/detail/operation_await.hpp"

namespace ringloop::fs {

registered_memory::registered_memory(std::size_t size)
    : home_(ringloop::detail::running_scheduler()), memory_(size, 4096) {
    const int number = home_.io().register_memory(memory_.bytes());
    if (number < 0) return;
    number_ = static_cast<std::int8_t>(number);
    join(home_, [](resident& self) noexcept { static_cast<registered_memory&>(self).leave(); });
}

registered_memory::~registered_memory() {
    leave();
}

void registered_memory::leave() noexcept {
    if (number_ < 0) return;
    resident::part();
    home_.io().unregister_memory(std::exchange(number_, std::int8_t{-1}));
}

registered_span registered_memory::part(std::size_t offset, std::size_t size) const {
    const auto all = memory_.bytes();
    if (offset > all.size() || size > all.size() - offset)
        throw std::out_of_range("ringloop: no such part of the registered memory");
    return {all.subspan(offset, size), &home_, number_};
}

}  // namespace ringloop::fs
