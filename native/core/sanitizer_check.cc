// Does on purpose what a sanitizer is to find, where SVC_ENGINE_FAULT says so: one that sees nothing is told
// from one that has nothing to see. Only in sanitizer builds.
#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

volatile int shared = 0;
volatile int most = INT_MAX;
char* volatile kept = nullptr;

// Beside AddressSanitizer gcc's UndefinedBehaviorSanitizer takes no path from its options, and a report on the
// standard error of a host would be seen by nobody. Both export the function; libubsan's own is the one to call.
void report_undefined_to_file() {
#ifdef __SANITIZE_ADDRESS__
  const char* path = std::getenv("SVC_UBSAN_LOG");
  void* library = path ? dlopen("libubsan.so.1", RTLD_NOW | RTLD_NOLOAD) : nullptr;
  if (!library) return;
  const auto set_path = reinterpret_cast<void (*)(const char*)>(dlsym(library, "__sanitizer_set_report_path"));
  if (set_path) set_path(path);
#endif
}

const bool checked = [] {
  report_undefined_to_file();
  const char* fault = std::getenv("SVC_ENGINE_FAULT");
  if (!fault) return false;
  if (std::strcmp(fault, "address") == 0) {
    kept = new char[8];
    delete[] kept;
    shared = kept[0];
  } else if (std::strcmp(fault, "undefined") == 0) {
    most = most + 1;
  } else if (std::strcmp(fault, "leak") == 0) {
    kept = new char[8];
    kept = nullptr;
  } else if (std::strcmp(fault, "thread") == 0) {
    // Two others: what this one does while it loads an addon for Node is left out.
    std::thread one([] { shared = shared + 1; });
    std::thread two([] { shared = shared + 1; });
    one.join();
    two.join();
  }
  return true;
}();

}  // namespace
