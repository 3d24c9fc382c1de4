// A connection to an X server with an explicit cookie, and the few things that capture and input both need of
// it.
#pragma once
#include <xcb/xcb.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytes.h"

namespace svc {

struct FreeReply {
  void operator()(void* reply) const { std::free(reply); }
};
/// A reply or event of xcb, freed by its owner.
template <typename T>
using XReply = std::unique_ptr<T, FreeReply>;

/// Display number of `:90` or `:90.0`; nothing for anything else.
std::optional<int> display_number(const std::string& display);

/// The MIT-MAGIC-COOKIE-1 that an Xauthority file holds for a display number; empty when it has none.
std::vector<uint8_t> find_cookie(View xauthority_file, int display);

/// Not for two threads at once, but for `interrupt`.
class XConnection {
 public:
  /// Throws `Fault` with stage `connect` when there is no such display, or when it refuses the cookie.
  XConnection(const std::string& display, const std::string& xauthority);
  ~XConnection();
  XConnection(const XConnection&) = delete;
  XConnection& operator=(const XConnection&) = delete;

  operator xcb_connection_t*() const { return connection_; }
  const xcb_screen_t& screen() const { return *screen_; }
  xcb_window_t root() const { return screen_->root; }
  bool has_failed() const { return xcb_connection_has_error(connection_) != 0; }
  int fd() const { return xcb_get_file_descriptor(connection_); }
  /// From any thread: whoever waits for this server sees the connection fail.
  void interrupt() const;

  /// Throws `Fault` with stage `extensions` when the server does not have it.
  const xcb_query_extension_reply_t& require(xcb_extension_t& extension, const char* name) const;

 private:
  xcb_connection_t* connection_;
  const xcb_screen_t* screen_;
};

}  // namespace svc
