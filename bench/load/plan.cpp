// Reading a plan from its files. Everything is read before the load begins, nothing during it.
#include "plan.hpp"

#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace load {
namespace {

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

plan::plan(const std::string& path) {
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    std::istringstream lines(contents(path));
    std::vector<double> weights;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        kind one{};
        std::string request, body;
        if (!(words >> one.weight >> one.name >> request >> body))
            throw std::runtime_error(path + ": not WEIGHT NAME REQUEST-FILE BODY-FILE: " + line);
        one.request = contents(folder + request);
        one.body = contents(folder + body);
        weights.push_back(one.weight);
        kinds_.push_back(std::move(one));
    }
    if (kinds_.empty()) throw std::runtime_error(path + ": the plan has no line");
    order_ = std::discrete_distribution<std::size_t>(weights.begin(), weights.end());
}

}  // namespace load
