// text(parts...): error sentences from words and numbers.
#pragma once

#include <string>
#include <string_view>

namespace ringloop::kernels {

inline void append_part(std::string& to, std::string_view part) {
    to.append(part);
}
template <class Number>
requires std::is_integral_v<Number>
void append_part(std::string& to, Number part) {
    to.append(std::to_string(part));
}

template <class... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
    std::string whole;
    (append_part(whole, parts), ...);
    return whole;
}

}  // namespace ringloop::kernels
