// Answers one line of input with one of output, so that the protocol's vectors stay in one place and are read
// by one parser:
//   seal KEY IV STREAM EPOCH SESSION COUNTER PLAIN    -> the datagram
//   open KEY IV DATAGRAM                              -> its payload, or `no`
//   parity K M SHARD_BYTES DATA                       -> the parity shards, one after the other
//   audio PACKET K M CAPTURE_US FRAME_US OPUS OPUS...  -> the payloads of one group of sound
//   path PAYLOAD                                      -> type:body for each message
//   input PAYLOAD                                     -> number:type:body for each event, or `no`
//   replay COUNTER COUNTER...                         -> 1 or 0 for each: taken or dropped
// Bytes and the session are in hexadecimal, numbers in decimal; no bytes at all are a dash.
#include <iostream>
#include <sstream>

#include "audio_packetizer.h"
#include "core_test.h"
#include "datagram.h"
#include "input.h"
#include "parity.h"
#include "path.h"
#include "replay.h"
#include "seal.h"

namespace svc::test {

namespace {

std::vector<uint8_t> unhex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; text != "-" && i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string hex(View bytes) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.bytes; i++) {
    text += kDigits[bytes.data[i] >> 4];
    text += kDigits[bytes.data[i] & 15];
  }
  return text.empty() ? "-" : text;
}

MediaKey key_of(const std::string& key, const std::string& iv) {
  MediaKey made{};
  const auto bytes = unhex(key + iv);
  for (size_t i = 0; i < made.size() && i < bytes.size(); i++) made[i] = bytes[i];
  return made;
}

std::string seal(std::istream& in) {
  std::string key, iv, session, plain;
  int stream = 0;
  uint32_t epoch = 0;
  uint64_t counter = 0;
  in >> key >> iv >> stream >> epoch >> session >> counter >> plain;
  const auto payload = unhex(plain);
  std::vector<uint8_t> datagram(kHeaderBytes + payload.size() + kTagBytes);
  write_header(datagram.data(), {static_cast<Stream>(stream), static_cast<uint8_t>(epoch),
                                 std::stoull(session, nullptr, 16), counter});
  std::copy(payload.begin(), payload.end(), datagram.begin() + kHeaderBytes);
  Cipher cipher(key_of(key, iv), true);
  return cipher.seal(datagram.data(), payload.size(), counter) ? hex({datagram.data(), datagram.size()})
                                                               : "no";
}

std::string open(std::istream& in) {
  std::string key, iv, text;
  in >> key >> iv >> text;
  auto datagram = unhex(text);
  const auto header = read_header({datagram.data(), datagram.size()});
  Cipher cipher(key_of(key, iv), false);
  if (!header || !cipher.open(datagram.data(), datagram.size(), header->counter)) return "no";
  return hex(View{datagram.data(), datagram.size() - kTagBytes}.from(kHeaderBytes));
}

std::string parity(std::istream& in) {
  int k = 0;
  int m = 0;
  size_t shard_bytes = 0;
  std::string text;
  in >> k >> m >> shard_bytes >> text;
  auto data = unhex(text);
  data.resize(static_cast<size_t>(k) * shard_bytes);
  std::vector<uint8_t> made(static_cast<size_t>(m) * shard_bytes);
  uint8_t* from[kMaxDataShards];
  uint8_t* to[kMaxParityShards];
  for (int i = 0; i < k; i++) from[i] = data.data() + static_cast<size_t>(i) * shard_bytes;
  for (int i = 0; i < m; i++) to[i] = made.data() + static_cast<size_t>(i) * shard_bytes;
  Parity().encode(k, m, shard_bytes, from, to);
  return hex({made.data(), made.size()});
}

std::string path(std::istream& in) {
  std::string text, out;
  in >> text;
  const auto payload = unhex(text);
  read_path({payload.data(), payload.size()}, [&](PathType type, View body) {
    out += std::to_string(static_cast<int>(type)) + ":" + hex(body) + " ";
  });
  return out.empty() ? "-" : out;
}

std::string input(std::istream& in) {
  std::string text, out;
  in >> text;
  const auto payload = unhex(text);
  const bool whole =
      read_input({payload.data(), payload.size()}, [&](uint32_t number, InputType type, View body) {
        out += std::to_string(number) + ":" + std::to_string(static_cast<int>(type)) + ":" + hex(body) + " ";
        return true;
      });
  return whole ? out : "no";
}

std::string replay(std::istream& in) {
  ReplayWindow window;
  std::string out;
  for (uint64_t counter; in >> counter;) {
    const bool fresh = window.fresh(counter);
    if (fresh) window.accept(counter);
    out += fresh ? '1' : '0';
  }
  return out;
}

std::string audio(std::istream& in) {
  AudioPacketizerConfig config{.session = 1, .epoch = 1};
  int64_t capture_us = 0;
  int64_t frame_us = 0;
  in >> config.first >> config.group >> config.parity >> capture_us >> frame_us;
  const MediaKey key{};
  Cipher opener(key, false);
  std::string answer;
  AudioPacketizer packetizer(config, key, [&](View sealed, bool) {
    std::vector<uint8_t> datagram(sealed.data, sealed.data + sealed.bytes);
    const auto header = read_header(sealed);
    const bool opens = header && opener.open(datagram.data(), datagram.size(), header->counter);
    const size_t payload = datagram.size() - kHeaderBytes - kTagBytes;
    if (!answer.empty()) answer += ' ';
    answer += opens ? hex({datagram.data() + kHeaderBytes, payload}) : "no";
  });
  for (std::string text; in >> text; capture_us += frame_us) {
    const auto opus = unhex(text);
    packetizer.add({opus.data(), opus.size()}, capture_us);
  }
  return answer;
}

}  // namespace

int answer_vectors() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string what;
    in >> what;
    const auto answer = what == "seal"     ? seal
                        : what == "open"   ? open
                        : what == "parity" ? parity
                        : what == "audio"  ? audio
                        : what == "path"   ? path
                        : what == "input"  ? input
                        : what == "replay" ? replay
                                           : nullptr;
    if (!answer) return 2;
    std::cout << answer(in) << '\n';
  }
  return 0;
}

}  // namespace svc::test
