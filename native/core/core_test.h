// A test is a named function; a check that fails says where, and the program goes on to the next test.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace svc::test {

struct Case {
  const char* name;
  void (*run)();
};
std::vector<Case>& cases();
struct Register {
  Register(const char* name, void (*run)()) { cases().push_back({name, run}); }
};
struct Failed {};
/// What a test throws that needs something which is not here.
struct Skipped {
  const char* lacks;
};

[[noreturn]] inline void fail(const char* file, int line, const char* what) {
  std::printf("  %s:%d: %s\n", file, line, what);
  throw Failed{};
}

/// Numbers that are the same in every run.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  size_t below(size_t limit) { return next() % limit; }
  std::vector<uint8_t> bytes(size_t count) {
    std::vector<uint8_t> made(count);
    for (uint8_t& byte : made) byte = static_cast<uint8_t>(next() >> 24);
    return made;
  }

 private:
  uint64_t state_;
};

/// Answers lines of a vector test from standard input; see vectors_test.cc.
int answer_vectors();

}  // namespace svc::test

#define TEST(name)                                                   \
  static void name();                                                \
  static const ::svc::test::Register name##_registered{#name, name}; \
  static void name()
#define CHECK(condition) \
  if (!(condition)) ::svc::test::fail(__FILE__, __LINE__, #condition)
