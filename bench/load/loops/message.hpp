// message: what one connection sends, and the bytes that are right as an answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "options.hpp"

namespace load {

class message {
  public:
    // The bytes differ from connection to connection, and by a number from request to request.
    message(const options& wanted, std::size_t connection);

    void next();  // the following request
    [[nodiscard]] const std::string& request() const noexcept { return request_; }
    [[nodiscard]] const std::string& answer() const noexcept { return *answer_; }
    // Whether these bytes are what belongs at `offset` of the answer.
    [[nodiscard]] bool fits(std::size_t offset, const char* bytes, std::size_t size) const noexcept;
    // Sent once before all requests, and answered up to an empty line: a WebSocket's upgrade.
    [[nodiscard]] const std::string& greeting() const noexcept { return greeting_; }

  private:
    void put(std::string& into, std::size_t at) const;

    std::string request_;
    std::shared_ptr<std::string> answer_;
    std::string greeting_;
    std::uint32_t number_ = 0;
    std::size_t request_at_ = 0;  // where the number stands
    std::size_t answer_at_ = 0;
    bool echoed_ = true;
};

}  // namespace load
