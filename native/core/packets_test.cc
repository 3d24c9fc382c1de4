// Packets: replay, sealing, and that a block comes back whole from any k of its shards.
#include <isa-l.h>

#include <algorithm>
#include <cstring>

#include "core_test.h"
#include "datagram.h"
#include "packetizer.h"
#include "replay.h"
#include "seal.h"

using svc::MediaKey;
using svc::Packetizer;
using svc::PacketRing;
using svc::ReplayWindow;
using svc::View;
using svc::test::Random;

namespace {

MediaKey some_key() {
  MediaKey key;
  for (size_t i = 0; i < key.size(); i++) key[i] = static_cast<uint8_t>(i * 7 + 1);
  return key;
}

struct Shard {
  uint32_t frame;
  uint8_t block, flags, index, k, m;
  uint32_t block_bytes;
  std::vector<uint8_t> data;
};

/// Opens everything that lies in the ring, as a client would.
std::vector<Shard> receive(PacketRing& ring) {
  svc::Cipher cipher(some_key(), false);
  std::vector<Shard> shards;
  while (ring.waiting() > 0) {
    svc::Packet& packet = ring.peek(0);
    const auto header = svc::read_header({packet.data, packet.bytes});
    CHECK(header && header->stream == svc::Stream::kVideo && header->session == 42 && header->epoch == 3);
    CHECK(cipher.open(packet.data, packet.bytes, header->counter));
    const uint8_t* at = packet.data + svc::kHeaderBytes;
    const size_t bytes = packet.bytes - svc::kHeaderBytes - svc::kTagBytes - svc::kVideoHeaderBytes;
    shards.push_back({svc::get32(at),
                      at[4],
                      at[5],
                      at[6],
                      at[7],
                      at[8],
                      svc::get32(at + 12),
                      {at + svc::kVideoHeaderBytes, at + svc::kVideoHeaderBytes + bytes}});
    ring.release(1);
  }
  return shards;
}

/// Solves for the data shards of one block from the first k of `have`.
std::vector<uint8_t> recover(const std::vector<Shard>& have) {
  const int k = have[0].k;
  const size_t size = have[0].data.size();
  std::vector<uint8_t> matrix(static_cast<size_t>(k) * k, 0);
  std::vector<uint8_t> inverse(matrix.size());
  for (int row = 0; row < k; row++) {
    const int index = have[static_cast<size_t>(row)].index;
    for (int column = 0; column < k; column++) {
      matrix[static_cast<size_t>(row * k + column)] =
          index < k ? index == column : gf_inv(static_cast<uint8_t>(index ^ column));
    }
  }
  CHECK(gf_invert_matrix(matrix.data(), inverse.data(), k) == 0);
  std::vector<uint8_t> out(static_cast<size_t>(k) * size, 0);
  for (int row = 0; row < k; row++) {
    for (int column = 0; column < k; column++) {
      const uint8_t factor = inverse[static_cast<size_t>(row * k + column)];
      for (size_t i = 0; i < size; i++) {
        out[static_cast<size_t>(row) * size + i] ^= gf_mul(factor, have[static_cast<size_t>(column)].data[i]);
      }
    }
  }
  out.resize(have[0].block_bytes);
  return out;
}

}  // namespace

TEST(replay_window_agrees_with_a_plain_set) {
  Random random(3);
  ReplayWindow window;
  std::vector<uint64_t> seen;
  uint64_t newest = 0;
  for (int i = 0; i < 20'000; i++) {
    // Mostly near the newest, now and then far ahead or far behind.
    const uint64_t step = random.below(100) == 0 ? random.below(6000) : random.below(64);
    const uint64_t counter = random.below(3) == 0 && newest > step ? newest - step : newest + step % 8;
    const bool repeated = std::find(seen.begin(), seen.end(), counter) != seen.end();
    const bool too_old = newest >= ReplayWindow::kWindow && counter <= newest - ReplayWindow::kWindow;
    CHECK(window.fresh(counter) == (!repeated && !too_old));
    if (!window.fresh(counter)) continue;
    CHECK(window.accept(counter) == (seen.empty() || counter > newest));
    newest = std::max(newest, counter);
    seen.push_back(counter);
    if (seen.size() > 8000) seen.erase(seen.begin(), seen.begin() + 2000);
    CHECK(!window.fresh(counter));
  }
}

TEST(replay_window_takes_jumps_to_the_end_of_its_range) {
  ReplayWindow window;
  for (const uint64_t counter : {uint64_t{0}, uint64_t{1} << 40, UINT64_MAX - 1}) {
    CHECK(window.fresh(counter));
    CHECK(window.accept(counter));
    CHECK(!window.fresh(counter));
  }
  CHECK(!window.fresh(0));
}

TEST(a_changed_datagram_does_not_open) {
  Random random(5);
  svc::Cipher seals(some_key(), true);
  svc::Cipher opens(some_key(), false);
  std::vector<uint8_t> datagram(svc::kHeaderBytes + 64 + svc::kTagBytes, 9);
  svc::write_header(datagram.data(), {svc::Stream::kPath, 1, 42, 5});
  CHECK(seals.seal(datagram.data(), 64, 5));
  for (size_t bit = 0; bit < datagram.size() * 8; bit++) {
    auto changed = datagram;
    changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const auto header = svc::read_header({changed.data(), changed.size()});
    CHECK(!header || !opens.open(changed.data(), changed.size(), header->counter));
  }
  CHECK(opens.open(datagram.data(), datagram.size(), 5));
}

TEST(frames_come_back_from_any_k_shards_of_each_block) {
  Random random(11);
  for (int round = 0; round < 60; round++) {
    PacketRing ring;
    const int percent = static_cast<int>(random.below(101));
    Packetizer packetizer({42, 3, 1200 + random.below(253), percent}, some_key(), ring);
    packetizer.begin({static_cast<uint32_t>(round), svc::kKeyframe, 1, 1000});
    std::vector<uint8_t> frame;
    const size_t slices = 1 + random.below(5);
    for (size_t i = 0; i < slices; i++) {
      const auto slice = random.bytes(1 + random.below(random.below(4) == 0 ? 120'000 : 6000));
      frame.insert(frame.end(), slice.begin(), slice.end());
      packetizer.add({slice.data(), slice.size()}, true, i == slices - 1);
    }
    CHECK(!packetizer.overflowed());
    auto shards = receive(ring);
    std::vector<uint8_t> got;
    for (uint8_t block = 0, last = 0; !last; block++) {
      std::vector<Shard> have;
      for (const Shard& shard : shards) {
        if (shard.block == block) have.push_back(shard);
      }
      CHECK(!have.empty());
      const int k = have[0].k;
      const int m = have[0].m;
      CHECK(k >= 1 && k <= 50 && m == svc::parity_shards(k, percent) &&
            have.size() == static_cast<size_t>(k + m));
      for (const Shard& shard : have)
        CHECK(shard.data.size() == (shard.block_bytes + static_cast<size_t>(k) - 1) / static_cast<size_t>(k));
      for (size_t i = have.size() - 1; i > 0; i--) std::swap(have[i], have[random.below(i + 1)]);
      const auto bytes = recover(have);
      got.insert(got.end(), bytes.begin(), bytes.end());
      last = have[0].flags & svc::kLastBlock;
      CHECK(have[0].flags & svc::kKeyframe);
    }
    CHECK(got == frame);
  }
}

TEST(a_frame_that_does_not_fit_the_ring_is_cut_off_and_said_so) {
  PacketRing ring;
  Packetizer packetizer({42, 3, 1200, 20}, some_key(), ring);
  packetizer.begin({0, 0, 1, 0});
  const std::vector<uint8_t> large(PacketRing::kSlots * 1200, 1);
  packetizer.add({large.data(), large.size()}, true, true);
  CHECK(packetizer.overflowed());
  receive(ring);
  packetizer.begin({1, 0, 1, 0});
  CHECK(packetizer.add({large.data(), 100}, true, true));
  CHECK(!packetizer.overflowed());
  CHECK(receive(ring).size() == 2);
}

TEST(parity_is_at_least_one_shard_unless_switched_off) {
  CHECK(svc::parity_shards(1, 1) == 1);
  CHECK(svc::parity_shards(50, 0) == 0);
  CHECK(svc::parity_shards(10, 20) == 2);
  CHECK(svc::parity_shards(11, 20) == 3);
  CHECK(svc::parity_shards(50, 100) == 50);
}
