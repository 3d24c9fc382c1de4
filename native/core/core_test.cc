// Runs the tests of core/: all of them, or those whose names hold the first argument; `--vectors` answers
// questions instead.
#include "core_test.h"

#include <cstring>

namespace svc::test {
std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
}  // namespace svc::test

int main(int argc, char** argv) {
  using namespace svc::test;
  if (argc > 1 && std::strcmp(argv[1], "--vectors") == 0) return answer_vectors();
  int run = 0;
  int failed = 0;
  for (const Case& test : cases()) {
    if (argc > 1 && !std::strstr(test.name, argv[1])) continue;
    try {
      test.run();
      std::printf("ok %s\n", test.name);
    } catch (const Skipped& skipped) {
      std::printf("skipped %s: %s is not set\n", test.name, skipped.lacks);
      continue;
    } catch (const Failed&) {
      failed++;
      std::printf("FAILED %s\n", test.name);
    }
    run++;
    std::fflush(stdout);
  }
  std::printf("%d run, %d failed\n", run, failed);
  return run > 0 && failed == 0 ? 0 : 1;
}
