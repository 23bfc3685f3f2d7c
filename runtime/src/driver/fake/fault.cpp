// The catalogue: which faults apply to which step, and their names.
#include "ringloop/testing/fault.hpp"

#include <cerrno>
#include <charconv>
#include <initializer_list>
#include <stdexcept>

namespace ringloop::testing {
namespace {

constexpr std::int64_t late_ns = 1'000'000;
constexpr std::int64_t jump_ns = 10'000'000'000;

constexpr std::string_view domain_names[] = {"work", "enter", "wait"};
constexpr std::string_view kind_names[] = {
    "nop",        "accept",     "connect",       "receive",      "receive_into", "send",
    "poll",       "open",       "read",          "write",        "statx",        "fsync",
    "close",      "rename",     "unlink",        "mkdir",        "link",         "symlink",
    "call",       "cancel",     "try_send",      "try_receive",  "try_recvmmsg", "try_sendmmsg",
    "try_pread",  "try_close",  "make_socket",   "bind",         "listen",       "shutdown",
    "set_option", "get_option", "local_address", "peer_address", "enter",        "wait"};
constexpr std::string_view fault_names[] = {
    "none",          "error",  "shorten",     "end_of_stream", "late",      "slow",     "reorder",
    "end_multishot", "starve", "cancel_wins", "limit",         "interrupt", "spurious", "jump"};

using list = std::vector<fault>;

void add_errors(list& all, std::initializer_list<int> numbers) {
    for (const int number : numbers) all.push_back({fault_kind::error, number});
}

void add_common(list& all) {
    add_errors(all, {EINTR, EAGAIN, ECANCELED, ENOMEM, EIO, EBADF});
    all.push_back({fault_kind::late, late_ns});
    all.push_back({fault_kind::slow, late_ns});
    all.push_back({fault_kind::reorder, 0});
}

void add_short(list& all, std::int64_t result) {
    if (result <= 1) return;
    all.push_back({fault_kind::shorten, 1});
    if (result > 2) all.push_back({fault_kind::shorten, -1});
}

void add_for_operation(list& all, const step_record& step) {
    add_common(all);
    switch (step.kind) {
        case step_kind::receive:
            all.push_back({fault_kind::starve, 0});
            [[fallthrough]];
        case step_kind::receive_into:
        case step_kind::read:
            add_errors(all, {ECONNRESET});
            if (step.result > 0) all.push_back({fault_kind::end_of_stream, 0});
            add_short(all, step.result);
            break;
        case step_kind::send:
        case step_kind::write:
            add_errors(all, {EPIPE, ECONNRESET, ENOSPC});
            add_short(all, step.result);
            break;
        case step_kind::accept:
            add_errors(all, {EMFILE, ENFILE, ECONNABORTED, EPERM});
            break;
        case step_kind::connect:
            add_errors(all, {ECONNREFUSED, ETIMEDOUT, ENETUNREACH});
            break;
        case step_kind::open:
            add_errors(all, {EMFILE, ENFILE, ENOENT, EACCES});
            break;
        case step_kind::fsync:
            add_errors(all, {ENOSPC});
            break;
        case step_kind::rename:
        case step_kind::unlink:
        case step_kind::mkdir:
        case step_kind::link:
        case step_kind::symlink:
            add_errors(all, {ENOENT, EACCES, ENOSPC, EROFS});
            break;
        default:
            break;
    }
    if (step.multishot && step.result >= 0) all.push_back({fault_kind::end_multishot, 0});
}

void add_for_verb(list& all, const step_record& step) {
    switch (step.kind) {
        case step_kind::try_send:
            add_errors(all, {EAGAIN, EINTR, ENOBUFS, ENOMEM, EPIPE, ECONNRESET});
            add_short(all, step.result);
            break;
        case step_kind::try_receive:
            add_errors(all, {EAGAIN, EINTR, ENOMEM, ECONNRESET});
            if (step.result > 0) all.push_back({fault_kind::end_of_stream, 0});
            add_short(all, step.result);
            break;
        case step_kind::try_recvmmsg:
            add_errors(all, {EAGAIN, EINTR, ENOMEM, ECONNREFUSED});
            add_short(all, step.result);
            break;
        case step_kind::try_sendmmsg:
            add_errors(all, {EAGAIN, EINTR, ENOBUFS, EPERM, ECONNREFUSED, EMSGSIZE});
            add_short(all, step.result);
            break;
        case step_kind::try_pread:
            add_errors(all, {EAGAIN, EINTR, EIO, EOPNOTSUPP});
            add_short(all, step.result);
            break;
        case step_kind::try_close:  // EINTR: the real bodies answer 0, as Linux has closed it
            add_errors(all, {EIO});
            break;
        case step_kind::make_socket:
            add_errors(all, {EMFILE, ENFILE, ENOMEM, EACCES});
            break;
        case step_kind::bind:
            add_errors(all, {EADDRINUSE, EACCES});
            break;
        case step_kind::listen:
            add_errors(all, {EADDRINUSE});
            break;
        case step_kind::shutdown:
        case step_kind::peer_address:
            add_errors(all, {ENOTCONN});
            break;
        case step_kind::set_option:
            add_errors(all, {EINVAL, ENOPROTOOPT});
            break;
        case step_kind::local_address:
            add_errors(all, {ENOBUFS});
            break;
        default:
            break;
    }
}

// Immediate verbs are attempts: "not now" sends their caller to the slow way. Operations that were
// interrupted, and waiting ones that were cancelled unasked, are started again by the driver.
bool harmless_error(step_kind kind, std::int64_t number) noexcept {
    switch (kind) {
        case step_kind::try_send:
        case step_kind::try_receive:
        case step_kind::try_recvmmsg:
        case step_kind::try_sendmmsg:
        case step_kind::try_pread:
            return number == EAGAIN || number == EINTR;
        case step_kind::accept:
            return number == EINTR || number == ECANCELED || number == EMFILE || number == ENFILE ||
                   number == ENOMEM || number == EAGAIN;
        case step_kind::receive:
        case step_kind::receive_into:
        case step_kind::poll:
            return number == EINTR || number == ECANCELED;
        case step_kind::connect:
        case step_kind::close:
            return false;
        default:
            return kind < step_kind::cancel && number == EINTR;
    }
}

}  // namespace

std::vector<fault> applicable_faults(const step_record& step) {
    list all;
    if (step.domain == step_domain::wait) {
        all.push_back({fault_kind::interrupt, 0});
        all.push_back({fault_kind::spurious, 0});
        all.push_back({fault_kind::jump, jump_ns});
    } else if (step.domain == step_domain::enter) {
        all.push_back({fault_kind::limit, 0});
        if (step.asked > 1) all.push_back({fault_kind::limit, 1});
        if (step.asked > 2) all.push_back({fault_kind::limit, -1});
    } else if (step.kind == step_kind::cancel) {
        all.push_back({fault_kind::late, late_ns});
        if (step.running) all.push_back({fault_kind::cancel_wins, 0});
    } else if (step.kind < step_kind::cancel) {
        add_for_operation(all, step);
    } else {
        add_for_verb(all, step);
    }
    return all;
}

bool harmless(const step_record& step, const fault& what) noexcept {
    switch (what.kind) {
        case fault_kind::none:
        case fault_kind::shorten:
        case fault_kind::late:
        case fault_kind::slow:
        case fault_kind::reorder:
        case fault_kind::end_multishot:
        case fault_kind::starve:
        case fault_kind::limit:
        case fault_kind::spurious:
        case fault_kind::interrupt:
            return true;
        case fault_kind::error:
            return harmless_error(step.kind, what.value);
        case fault_kind::end_of_stream:
        case fault_kind::cancel_wins:
        case fault_kind::jump:
            return false;
    }
    return false;
}

std::string_view name(step_domain domain) noexcept {
    return domain_names[static_cast<int>(domain)];
}
std::string_view name(step_kind kind) noexcept {
    return kind_names[static_cast<int>(kind)];
}
std::string_view name(fault_kind kind) noexcept {
    return fault_names[static_cast<int>(kind)];
}

std::string to_text(const planned_fault& planned) {
    return std::string(name(planned.domain)) + ":" + std::to_string(planned.index) + ":" +
           std::string(name(planned.what.kind)) + ":" + std::to_string(planned.what.value);
}

std::string to_text(const step_record& step) {
    std::string text = std::string(name(step.domain)) + " " + std::string(name(step.kind)) +
                       (step.multishot ? "*" : "") + " fd=" + std::to_string(step.fd) +
                       " asked=" + std::to_string(step.asked) +
                       " result=" + std::to_string(step.result) +
                       " t=" + std::to_string(step.time_ns);
    if (step.injected.kind != fault_kind::none)
        text += " FAULT " + std::string(name(step.injected.kind)) + ":" +
                std::to_string(step.injected.value);
    return text;
}

template <class Number>
static bool number(const std::string& text, Number& value) noexcept {
    const char* const end = text.data() + text.size();
    const auto [stopped, failure] = std::from_chars(text.data(), end, value);
    return failure == std::errc() && stopped == end;
}

planned_fault parse_fault(const std::string& text) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
        if (c == ':')
            parts.emplace_back();
        else
            parts.back() += c;
    }
    planned_fault planned;
    bool good = parts.size() == 4;
    const auto find = [&](const auto& names, const std::string& word) {
        int index = 0;
        for (const std::string_view candidate : names) {
            if (candidate == word) return index;
            ++index;
        }
        good = false;
        return 0;
    };
    if (good) {
        planned.domain = static_cast<step_domain>(find(domain_names, parts[0]));
        good = good && number(parts[1], planned.index);
        planned.what.kind = static_cast<fault_kind>(find(fault_names, parts[2]));
        good = good && number(parts[3], planned.what.value);
    }
    if (!good)
        throw std::invalid_argument("'" + text + "' is no fault: write domain:index:kind:value, " +
                                    "as in work:17:error:104");
    return planned;
}

}  // namespace ringloop::testing
