// Targets: texts and socket addresses.
#include <cstring>
#include <stdexcept>

#include "ringloop/net/endpoint.hpp"
#include "ringloop/net/unix_endpoint.hpp"
#include "ringloop/testing/fault.hpp"
#include "target.hpp"

namespace fuzz {
namespace {

using ringloop::net::endpoint;
using ringloop::net::unix_endpoint;

// What was printed for people, taken apart again.
endpoint reparsed(const endpoint& of) {
    const std::string text = of.to_string();
    const std::size_t colon = text.rfind(':');
    must(text.substr(colon + 1) == std::to_string(of.port()),
         "an endpoint's text ends in its port");
    const bool wide = text.front() == '[';
    return {wide ? text.substr(1, colon - 2) : text.substr(0, colon), of.port()};
}

void parse_endpoint(bytes data) {
    choices in(data);
    const auto port = static_cast<std::uint16_t>(in.word() >> 48);
    try {
        const endpoint parsed(in.text(SIZE_MAX), port);
        must(parsed == reparsed(parsed), "an endpoint's text leads back to it");
        must(parsed == endpoint(parsed.address(), parsed.size()), "an endpoint is its address");
    } catch (const std::invalid_argument&) {
        return;
    }
}
const registered endpoint_text("endpoint_text", parse_endpoint);

// The first byte: how many bytes of the address the kernel is said to have filled in.
void take_address(bytes data) {
    choices in(data);
    sockaddr_storage storage{};
    const std::size_t size = std::min<std::size_t>(in.byte(), sizeof storage);
    const std::string_view content = in.text(size);
    std::memcpy(&storage, content.data(), content.size());
    const auto* const address = reinterpret_cast<const sockaddr*>(&storage);
    try {
        const endpoint taken(address, static_cast<socklen_t>(size));
        must(taken == reparsed(taken), "an address's text leads back to it");
    } catch (const std::invalid_argument&) {
        must(true, "refused");
    }
    try {
        const unix_endpoint taken(address, static_cast<socklen_t>(size));
        must(taken.size() <= sizeof(sockaddr_un), "an address fits");
        if (taken.path().size() < sizeof(sockaddr_un::sun_path))
            must(unix_endpoint(taken.path()) == taken, "a path leads back to its address");
    } catch (const std::invalid_argument&) {
        return;
    }
}
const registered socket_address("socket_address", take_address);

void take_path(bytes data) {
    choices in(data);
    const std::string path(in.text(SIZE_MAX));
    try {
        const unix_endpoint made(path);
        must(made.path() == path, "a path comes back as it was given");
        must(made == unix_endpoint(made.address(), made.size()), "an address leads back to itself");
        must(made.is_abstract() == (!path.empty() && path[0] == '\0'),
             "abstract by its first byte");
        must(path.empty() || made.to_string().size() == path.size(), "people see every byte");
    } catch (const std::invalid_argument&) {
        return;
    }
}
const registered unix_path("unix_path", take_path);

void parse_fault_text(bytes data) {
    using namespace ringloop::testing;
    choices in(data);
    try {
        const planned_fault parsed = parse_fault(std::string(in.text(SIZE_MAX)));
        const planned_fault again = parse_fault(to_text(parsed));
        must(again.domain == parsed.domain && again.index == parsed.index &&
                 again.what == parsed.what,
             "a fault's text leads back to it");
    } catch (const std::invalid_argument&) {
        return;
    }
}
const registered fault_text("fault_text", parse_fault_text);

}  // namespace
}  // namespace fuzz
