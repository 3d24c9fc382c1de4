// The bound: what a stream costs with no design at all, one loop on one thread and every byte where it is needed next.
//
// bound PORT BITRATE_KBPS HZ
// Waits for damage of $DISPLAY, takes the picture into shared memory, converts, codes, adds a fifth of Reed-Solomon
// parity, seals with AES-128-GCM and sends with segmentation offload to 127.0.0.1:PORT. The datagrams are those of the
// native plane (session 0, a key of zeros), except that byte 3 of the header, which has no meaning there, is 1 in the
// last one of a frame, so that a receiver can count without opening them.
#include <arpa/inet.h>
#include <isa-l.h>
#include <libyuv.h>
#include <netinet/udp.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <x264.h>
#include <xcb/damage.h>
#include <xcb/shm.h>
#include <xcb/xcb.h>

#include <algorithm>
#include <vector>

namespace {

constexpr size_t kHeader = 20, kVideoHeader = 24, kTag = 16, kDatagram = 1400;
constexpr size_t kShardRoom = kDatagram - kHeader - kVideoHeader - kTag;
constexpr int kMostData = 50, kMostParity = 50;

volatile sig_atomic_t stopped = 0;

void put(uint8_t* at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
}

int64_t nowUs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000 + t.tv_nsec / 1000;
}

class Wire {
 public:
  explicit Wire(int port) : fd_(socket(AF_INET, SOCK_DGRAM, 0)), cipher_(EVP_CIPHER_CTX_new()) {
    const int room = 8 << 20;
    setsockopt(fd_, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    to_.sin_family = AF_INET;
    to_.sin_port = htons(static_cast<uint16_t>(port));
    to_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const uint8_t key[16] = {};
    EVP_EncryptInit_ex(cipher_, EVP_aes_128_gcm(), nullptr, key, nullptr);
  }

  void frame(uint32_t number, int64_t capture_us, bool key, const uint8_t* data, size_t bytes) {
    const size_t most = kMostData * kShardRoom, blocks = (bytes + most - 1) / most, each = (bytes + blocks - 1) / blocks;
    for (size_t b = 0; b < blocks; b++) {
      const size_t from = b * each, part = std::min(each, bytes - from);
      block(number, static_cast<uint8_t>(b), b + 1 == blocks, capture_us, key, data + from, part);
    }
  }

 private:
  void block(uint32_t frame, uint8_t index, bool last, int64_t capture_us, bool key, const uint8_t* data, size_t bytes) {
    const int k = static_cast<int>((bytes + kShardRoom - 1) / kShardRoom), m = (k * 20 + 99) / 100;
    const size_t shard = (bytes + k - 1) / k, datagram = kHeader + kVideoHeader + shard + kTag;
    uint8_t* shards[kMostData + kMostParity];
    for (int i = 0; i < k + m; i++) {
      uint8_t* at = buffer_ + datagram * i;
      memset(at, 0, kHeader + kVideoHeader);
      at[0] = 0x11;
      at[1] = 1;
      at[3] = last && i == k + m - 1;
      put(at + 12, counter_ + i, 8);
      uint8_t* video = at + kHeader;
      put(video, frame, 4);
      video[4] = index;
      video[5] = static_cast<uint8_t>((key ? 1 : 0) | (last ? 2 : 0));
      video[6] = static_cast<uint8_t>(i);
      video[7] = static_cast<uint8_t>(k);
      video[8] = static_cast<uint8_t>(m);
      put(video + 12, bytes, 4);
      put(video + 16, static_cast<uint64_t>(capture_us), 8);
      shards[i] = video + kVideoHeader;
      if (i >= k) continue;
      const size_t from = std::min(bytes, shard * i), piece = std::min(shard, bytes - from);
      memcpy(shards[i], data + from, piece);
      memset(shards[i] + piece, 0, shard - piece);
    }
    auto& table = tables_[k];
    if (table.empty()) {
      uint8_t rows[kMostParity * kMostData];
      for (int i = 0; i < m; i++)
        for (int j = 0; j < k; j++) rows[i * k + j] = gf_inv(static_cast<uint8_t>((k + i) ^ j));
      table.resize(size_t{32} * k * m);
      ec_init_tables(k, m, rows, table.data());
    }
    ec_encode_data(static_cast<int>(shard), k, m, table.data(), shards, shards + k);
    for (int i = 0; i < k + m; i++) {
      uint8_t* at = buffer_ + datagram * i;
      uint8_t* payload = at + kHeader;
      uint8_t iv[12] = {};
      put(iv + 4, counter_++, 8);
      int n = 0;
      const int payload_bytes = static_cast<int>(kVideoHeader + shard);
      EVP_EncryptInit_ex(cipher_, nullptr, nullptr, nullptr, iv);
      EVP_EncryptUpdate(cipher_, nullptr, &n, at, kHeader);
      EVP_EncryptUpdate(cipher_, payload, &n, payload, payload_bytes);
      EVP_EncryptFinal_ex(cipher_, payload + payload_bytes, &n);
      EVP_CIPHER_CTX_ctrl(cipher_, EVP_CTRL_GCM_GET_TAG, kTag, payload + payload_bytes);
    }
    // The kernel cuts one send into datagrams again; it takes 64 KB at most.
    for (int i = 0; i < k + m;) {
      const int count = std::min<int>(k + m - i, static_cast<int>(64000 / datagram));
      iovec piece{buffer_ + datagram * i, datagram * count};
      alignas(cmsghdr) char control[CMSG_SPACE(2)] = {};
      msghdr message{&to_, sizeof to_, &piece, 1, control, sizeof control, 0};
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_UDP;
      c->cmsg_type = UDP_SEGMENT;
      c->cmsg_len = CMSG_LEN(2);
      const auto segment = static_cast<uint16_t>(datagram);
      memcpy(CMSG_DATA(c), &segment, 2);
      if (sendmsg(fd_, &message, 0) < 0) perror("bound: send");
      i += count;
    }
  }

  int fd_;
  sockaddr_in to_{};
  EVP_CIPHER_CTX* cipher_;
  uint64_t counter_ = 0;
  std::vector<uint8_t> tables_[kMostData + 1];
  alignas(64) uint8_t buffer_[kDatagram * (kMostData + kMostParity)];
};

x264_t* openEncoder(int w, int h, int kbps, int hz) {
  x264_param_t p;
  x264_param_default_preset(&p, "ultrafast", "zerolatency");
  p.i_width = w;
  p.i_height = h;
  p.i_csp = X264_CSP_I420;
  p.i_fps_num = static_cast<uint32_t>(hz);
  p.i_fps_den = 1;
  p.b_vfr_input = 0;
  p.i_keyint_max = X264_KEYINT_MAX_INFINITE;
  p.i_scenecut_threshold = 0;
  p.b_repeat_headers = 1;
  p.b_annexb = 1;
  p.i_log_level = X264_LOG_ERROR;
  p.i_threads = 1;
  p.b_sliced_threads = 0;
  p.rc.i_rc_method = X264_RC_ABR;
  p.rc.i_bitrate = kbps;
  p.rc.i_vbv_max_bitrate = kbps;
  p.rc.i_vbv_buffer_size = std::max(1, 2 * kbps / hz);
  return x264_encoder_open(&p);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "bound PORT BITRATE_KBPS HZ\n"), 2;
  signal(SIGTERM, [](int) { stopped = 1; });
  signal(SIGINT, [](int) { stopped = 1; });
  xcb_connection_t* c = xcb_connect(nullptr, nullptr);
  if (xcb_connection_has_error(c)) return fprintf(stderr, "bound: cannot open the display\n"), 1;
  xcb_screen_t* screen = xcb_setup_roots_iterator(xcb_get_setup(c)).data;
  const int w = screen->width_in_pixels, h = screen->height_in_pixels;
  const uint8_t damage_event = xcb_get_extension_data(c, &xcb_damage_id)->first_event + XCB_DAMAGE_NOTIFY;
  free(xcb_damage_query_version_reply(c, xcb_damage_query_version(c, 1, 1), nullptr));
  const xcb_damage_damage_t damage = xcb_generate_id(c);
  xcb_damage_create(c, damage, screen->root, XCB_DAMAGE_REPORT_LEVEL_NON_EMPTY);
  const int id = shmget(IPC_PRIVATE, size_t(w) * h * 4, IPC_CREAT | 0666);
  if (id < 0) return perror("bound: shmget"), 1;
  const auto* pixels = static_cast<uint8_t*>(shmat(id, nullptr, 0));
  const xcb_shm_seg_t segment = xcb_generate_id(c);
  xcb_generic_error_t* error = xcb_request_check(c, xcb_shm_attach_checked(c, segment, id, 0));
  shmctl(id, IPC_RMID, nullptr);
  if (error) return fprintf(stderr, "bound: the display refuses shared memory\n"), 1;

  x264_t* encoder = openEncoder(w, h, atoi(argv[2]), atoi(argv[3]));
  if (!encoder) return fprintf(stderr, "bound: libx264 refuses the mode\n"), 1;
  x264_picture_t picture;
  if (x264_picture_alloc(&picture, X264_CSP_I420, w, h)) return fprintf(stderr, "bound: no memory\n"), 1;
  static Wire wire(atoi(argv[1]));
  bool changed = true;
  uint32_t frame = 0;
  while (!stopped) {
    while (xcb_generic_event_t* event = xcb_poll_for_event(c)) {
      changed = changed || (event->response_type & 0x7f) == damage_event;
      free(event);
    }
    if (xcb_connection_has_error(c)) return fprintf(stderr, "bound: the display has gone\n"), 1;
    if (!changed) {
      pollfd ready{xcb_get_file_descriptor(c), POLLIN, 0};
      poll(&ready, 1, 200);
      continue;
    }
    changed = false;
    xcb_damage_subtract(c, damage, XCB_NONE, XCB_NONE);
    const int64_t capture_us = nowUs();
    free(xcb_shm_get_image_reply(
        c, xcb_shm_get_image(c, screen->root, 0, 0, w, h, ~0u, XCB_IMAGE_FORMAT_Z_PIXMAP, segment, 0), nullptr));
    libyuv::ARGBToI420(pixels, w * 4, picture.img.plane[0], picture.img.i_stride[0], picture.img.plane[1],
                       picture.img.i_stride[1], picture.img.plane[2], picture.img.i_stride[2], w, h);
    picture.i_pts = frame;
    x264_nal_t* nals = nullptr;
    int count = 0;
    x264_picture_t out;
    const int bytes = x264_encoder_encode(encoder, &nals, &count, &picture, &out);
    if (bytes < 0) return fprintf(stderr, "bound: libx264 failed\n"), 1;
    if (bytes > 0) wire.frame(frame++, capture_us, out.b_keyframe, nals[0].p_payload, static_cast<size_t>(bytes));
  }
  return 0;
}
