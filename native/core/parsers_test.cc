// What reads bytes of others: cookies, text, input, path; with right ones, with cut ones and with any.
#include "core_test.h"
#include "datagram.h"
#include "input.h"
#include "keycode.h"
#include "path.h"
#include "x11.h"

using svc::View;
using svc::test::Random;

namespace {
std::vector<uint8_t> xauthority(const std::string& number, const std::string& name, const std::string& data) {
  std::vector<uint8_t> file{1, 0};
  for (const std::string& field : {std::string("host"), number, name, data}) {
    file.push_back(static_cast<uint8_t>(field.size() >> 8));
    file.push_back(static_cast<uint8_t>(field.size()));
    file.insert(file.end(), field.begin(), field.end());
  }
  return file;
}
View view(const std::vector<uint8_t>& bytes) { return {bytes.data(), bytes.size()}; }
std::vector<char32_t> characters(const std::string& text) {
  View rest{reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  std::vector<char32_t> found;
  while (const auto character = svc::next_character(rest)) found.push_back(*character);
  return found;
}
}  // namespace

TEST(cookie_of_the_display_is_found_among_others) {
  auto file = xauthority("7", "MIT-MAGIC-COOKIE-1", "seven");
  for (const auto& more :
       {xauthority("90", "OTHER", "no"), xauthority("90", "MIT-MAGIC-COOKIE-1", "ninety")}) {
    file.insert(file.end(), more.begin(), more.end());
  }
  const std::string ninety = "ninety";
  CHECK(svc::find_cookie(view(file), 90) == std::vector<uint8_t>(ninety.begin(), ninety.end()));
  CHECK(svc::find_cookie(view(file), 91).empty());
  for (size_t cut = 0; cut < file.size(); cut++) CHECK(svc::find_cookie(view(file).first(cut), 90).empty());
}

TEST(display_names_are_local_numbers) {
  CHECK(svc::display_number(":90") == 90);
  CHECK(svc::display_number(":0.1") == 0);
  for (const char* wrong : {"", ":", "90", "host:1", ":x", ":-1", ":1x", ":99999999999"})
    CHECK(!svc::display_number(wrong));
}

TEST(utf8_is_read_strictly) {
  CHECK((characters("aé€😀") == std::vector<char32_t>{'a', 0xe9, 0x20ac, 0x1f600}));
  // Overlong, surrogate, too large, cut off, a tail without a head: what stood before them counts.
  for (const char* wrong :
       {"x\xc0\x80", "x\xed\xa0\x80", "x\xf4\x90\x80\x80", "x\xe2\x82", "x\x80", "x\xff"}) {
    CHECK(characters(wrong) == std::vector<char32_t>{'x'});
  }
}

TEST(keys_of_the_hid_page_map_to_x_keycodes) {
  CHECK(svc::keycode_of_usage(0x04) == 38);   // a
  CHECK(svc::keycode_of_usage(0x28) == 36);   // return
  CHECK(svc::keycode_of_usage(0xe1) == 50);   // left shift
  CHECK(svc::keycode_of_usage(0xe7) == 134);  // right super
  for (const uint16_t none : {0x00, 0x03, 0xdf, 0xe8, 0x1000, 0xffff})
    CHECK(svc::keycode_of_usage(none) == 0);
}

TEST(any_bytes_are_read_without_harm) {
  Random random(7);
  int whole_lists = 0;
  for (int round = 0; round < 200'000; round++) {
    auto bytes = random.bytes(random.below(48));
    // Half of them look like input as far as the count.
    if (round % 2 && bytes.size() > 4) bytes[4] = static_cast<uint8_t>(1 + random.below(6));
    // An own allocation of exactly this size lets a sanitizer see any step beyond it.
    const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
    size_t seen = 0;
    whole_lists += svc::read_input(view(exact), [&](uint32_t, svc::InputType, View body) {
      for (size_t i = 0; i < body.bytes; i++) seen += body.data[i];
      return true;
    });
    svc::read_path(view(exact), [&](svc::PathType, View body) {
      for (size_t i = 0; i < body.bytes; i++) seen += body.data[i];
    });
    svc::read_header(view(exact));
    svc::find_cookie(view(exact), 90);
    View text = view(exact);
    while (svc::next_character(text)) {
    }
  }
  CHECK(whole_lists > 100);
}
