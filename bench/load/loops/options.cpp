// Reading words KEY=VALUE into options. No default is silently taken for a word that is wrong.
#include "options.hpp"

#include <functional>
#include <map>
#include <stdexcept>

namespace load {
namespace {

using setter = std::function<void(options&, const std::string&)>;

life life_of(const std::string& word) {
    if (word == "keep") return life::keep;
    if (word == "once") return life::once;
    if (word == "close") return life::close;
    throw std::invalid_argument(word);
}

const std::map<std::string, setter>& setters() {
    static const std::map<std::string, setter> all{
        {"kind", [](options& o, const std::string& v) { o.kind = v; }},
        {"address", [](options& o, const std::string& v) { o.address = v; }},
        {"connections", [](options& o, const std::string& v) { o.connections = std::stoul(v); }},
        {"bytes", [](options& o, const std::string& v) { o.bytes = std::stoul(v); }},
        {"line_bytes", [](options& o, const std::string& v) { o.line_bytes = std::stoul(v); }},
        {"websocket", [](options& o, const std::string& v) { o.websocket = v; }},
        {"answer_file", [](options& o, const std::string& v) { o.answer_file = v; }},
        {"life", [](options& o, const std::string& v) { o.life = life_of(v); }},
        {"warm_seconds", [](options& o, const std::string& v) { o.warm_seconds = std::stod(v); }},
        {"seconds", [](options& o, const std::string& v) { o.seconds = std::stod(v); }},
        {"per_second", [](options& o, const std::string& v) { o.per_second = std::stod(v); }},
        {"flood", [](options& o, const std::string& v) { o.flood = std::stoi(v) != 0; }},
        {"server_pid", [](options& o, const std::string& v) { o.server_pid = std::stoi(v); }},
    };
    return all;
}

}  // namespace

options read_options(int count, char** words) {
    options made;
    for (int at = 1; at < count; ++at) {
        const std::string word = words[at];
        const std::size_t equals = word.find('=');
        const auto found = setters().find(word.substr(0, equals));
        if (equals == std::string::npos || found == setters().end())
            throw std::runtime_error("not KEY=VALUE with a key of options.hpp: " + word);
        try {
            found->second(made, word.substr(equals + 1));
        } catch (const std::logic_error&) {
            throw std::runtime_error("a value that cannot be used: " + word);
        }
    }
    if (made.address.empty()) throw std::runtime_error("address= is missing");
    if (made.connections == 0 || made.bytes < 8)
        throw std::runtime_error("at least one connection and 8 bytes, please");
    return made;
}

}  // namespace load
