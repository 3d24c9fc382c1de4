// Connecting to an X server: the cookie is read here, because the environment of this process belongs to
// nobody's display.
#include "x11.h"

#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "fault.h"

namespace svc {

namespace {
constexpr char kCookieName[] = "MIT-MAGIC-COOKIE-1";
}

std::optional<int> display_number(const std::string& display) {
  if (display.size() < 2 || display[0] != ':') return std::nullopt;
  int number = 0;
  const char* end = display.data() + display.size();
  const auto [rest, error] = std::from_chars(display.data() + 1, end, number);
  if (error != std::errc{} || number < 0 || (rest != end && *rest != '.')) return std::nullopt;
  return number;
}

std::vector<uint8_t> find_cookie(View file, int display) {
  const std::string wanted = std::to_string(display);
  // Entries of: family, then address, display number, name of the scheme and its data, each with a length in
  // front.
  while (file.has(2)) {
    file = file.from(2);
    View fields[4];
    for (View& field : fields) {
      if (!file.has(2)) return {};
      const size_t bytes = get16(file.data);
      if (!file.has(2 + bytes)) return {};
      field = file.from(2).first(bytes);
      file = file.from(2 + bytes);
    }
    const auto is = [](View field, const std::string& text) {
      return field.bytes == text.size() &&
             (field.bytes == 0 || std::memcmp(field.data, text.data(), field.bytes) == 0);
    };
    if (!is(fields[2], kCookieName) || !(fields[1].bytes == 0 || is(fields[1], wanted))) continue;
    return {fields[3].data, fields[3].data + fields[3].bytes};
  }
  return {};
}

XConnection::XConnection(const std::string& display, const std::string& xauthority) {
  const auto number = display_number(display);
  if (!number) throw Fault("connect", "bad-display", display + " is no local X display such as :90");
  std::vector<uint8_t> cookie;
  if (!xauthority.empty()) {
    std::ifstream stream(xauthority, std::ios::binary);
    const std::vector<uint8_t> file{std::istreambuf_iterator<char>(stream), {}};
    cookie = find_cookie({file.data(), file.size()}, *number);
    if (cookie.empty()) {
      throw Fault("connect", "no-cookie",
                  xauthority + " holds no cookie for display " + display + "; check its path and mode");
    }
  }
  char name[sizeof kCookieName];
  std::memcpy(name, kCookieName, sizeof name);
  xcb_auth_info_t auth{static_cast<int>(sizeof name - 1), name, static_cast<int>(cookie.size()),
                       reinterpret_cast<char*>(cookie.data())};
  int screen_at = 0;
  connection_ =
      xcb_connect_to_display_with_auth_info(display.c_str(), cookie.empty() ? nullptr : &auth, &screen_at);
  if (!cookie.empty()) explicit_bzero(cookie.data(), cookie.size());
  if (xcb_connection_has_error(connection_)) {
    xcb_disconnect(connection_);
    throw Fault("connect", "no-display",
                "the X server of display " + display + " does not answer, or refuses the cookie");
  }
  auto screens = xcb_setup_roots_iterator(xcb_get_setup(connection_));
  for (int i = 0; i < screen_at && screens.rem > 1; i++) xcb_screen_next(&screens);
  screen_ = screens.data;
}

XConnection::~XConnection() { xcb_disconnect(connection_); }

void XConnection::interrupt() const { shutdown(fd(), SHUT_RDWR); }

const xcb_query_extension_reply_t& XConnection::require(xcb_extension_t& extension, const char* name) const {
  const auto* found = xcb_get_extension_data(connection_, &extension);
  if (!found || !found->present) {
    throw Fault(
        "extensions", "no-extension",
        std::string("the X server has no ") + name + " extension; use another server, or switch it on");
  }
  return *found;
}

}  // namespace svc
