// A start that failed: which rung of the ladder it was, a stable code, and a sentence that says what to do.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

namespace svc {

struct Fault : std::runtime_error {
  std::string stage;
  std::string code;
  Fault(std::string at, std::string what_code, const std::string& message)
      : std::runtime_error(message), stage(std::move(at)), code(std::move(what_code)) {}
};

}  // namespace svc
