// folder: a directory of its own for a test.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/bodies.hpp"

namespace test {

struct folder {
    explicit folder(const std::filesystem::path& in = std::filesystem::temp_directory_path()) {
        std::string name = (in / "ringloop-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~folder() { std::filesystem::remove_all(path); }
    folder(const folder&) = delete;
    folder& operator=(const folder&) = delete;
    [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path / name; }
    // For a file on `body`'s kernel: in here, or on the simulated one.
    [[nodiscard]] std::filesystem::path file_on(const ringloop::testing::body& body) const {
        return body.kind == ringloop::backend::fake ? "/tmp/data" : path / "data";
    }
    std::filesystem::path path;
};

}  // namespace test
