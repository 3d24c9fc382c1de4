// Shows moving pictures on an X display at an exact rate: the subject of the end-to-end tests and the benchmarks.
//
// player [--hz N] [--seconds N] [--distinct N] [--card] [--print] [--times] [--flips N [--corner] [--seed N]]
//   --hz        pictures a second, default 60
//   --seconds   how long, default 0: until it is ended
//   --distinct  pictures rendered in advance and shown in turn, default 60
//   --card      one still test card instead
//   --print     a line for each thousandth picture shown
//   --times     a line `shown <number> <nanoseconds of CLOCK_MONOTONIC>` for every picture that moves
//   --flips     so many sudden changes of the whole of a still screen, 140 to 260 ms apart at a random phase
//   --corner    ... of its lower right corner alone, while everything else moves
//   --seed      of the phases, default 1
// A flip changes the 128 x 128 pixels in the lower right corner from black to white or back, and is told by a line
// `flip <1, 2, ...> <white: 1, black: 0> <nanoseconds of CLOCK_MONOTONIC>`, whose time is taken as soon as the server
// has drawn it. A line `flips done` follows the last one.
// The window covers the whole root, above everything. Every moving picture carries its number in a row of 32 blocks of
// 16 x 16 pixels from the top left, most significant bit first, white for one.
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <time.h>
#include <xcb/shm.h>
#include <xcb/xcb.h>

#include <random>
#include <vector>

namespace {

constexpr int kCorner = 128;

volatile sig_atomic_t stopped = 0;

uint32_t hash2(int x, int y) {
  uint32_t h = static_cast<uint32_t>(x) * 374761393u + static_cast<uint32_t>(y) * 668265263u;
  h = (h ^ (h >> 13)) * 1274126177u;
  return h ^ (h >> 16);
}

uint32_t rgb(int r, int g, int b) {
  const auto clamp = [](int v) { return static_cast<uint32_t>(v < 0 ? 0 : v > 255 ? 255 : v); };
  return clamp(r) << 16 | clamp(g) << 8 | clamp(b);
}

// A 1024 x 1024 texture of smooth noise in a few octaves, so that the ground has the detail of a game's.
std::vector<uint8_t> texture() {
  const int n = 1024;
  std::vector<uint8_t> out(n * n);
  for (int y = 0; y < n; y++)
    for (int x = 0; x < n; x++) {
      double sum = 0, weight = 0.5;
      for (int cell = 128; cell >= 2; cell /= 4, weight *= 0.55) {
        const int cells = n / cell, cx = x / cell, cy = y / cell;
        const double fx = (x % cell) / double(cell), fy = (y % cell) / double(cell);
        const double sx = fx * fx * (3 - 2 * fx), sy = fy * fy * (3 - 2 * fy);
        const auto at = [&](int i, int j) { return (hash2((i % cells) + cell * 7, j % cells) & 255) / 255.0; };
        const double top = at(cx, cy) * (1 - sx) + at(cx + 1, cy) * sx;
        const double low = at(cx, cy + 1) * (1 - sx) + at(cx + 1, cy + 1) * sx;
        sum += weight * (top * (1 - sy) + low * sy);
      }
      out[y * n + x] = static_cast<uint8_t>(sum * 200);
    }
  return out;
}

// A race seen from the driver's seat: perspective ground rushing by, a turning horizon, trees passing.
void renderRace(uint32_t* px, int w, int h, int index, int distinct, const std::vector<uint8_t>& tex) {
  const double t = index / double(distinct), sway = sin(t * 2 * M_PI) * w * 0.06;
  const int horizon = h * 2 / 5;
  for (int y = 0; y < horizon; y++)
    for (int x = 0; x < w; x++) {
      const int cloud = tex[((y * 2) & 1023) * 1024 + ((x / 2 + index) & 1023)];
      px[y * w + x] = rgb(90 + y * 120 / horizon + cloud / 6, 140 + y * 80 / horizon + cloud / 6, 230);
    }
  for (int y = horizon; y < h; y++) {
    const double depth = h / double(y - horizon + 4), forward = t * 1024;
    for (int x = 0; x < w; x++) {
      const double side = (x - w / 2 - sway * (y - horizon) / h) * depth / 3;
      const int u = static_cast<int>(side) & 1023, v = static_cast<int>(depth * 96 + forward) & 1023;
      const int shade = tex[v * 1024 + u];
      const bool track = fabs(side) < 110;
      px[y * w + x] = track ? rgb(70 + shade / 2, 70 + shade / 2, 78 + shade / 2)
                            : rgb(190 + shade / 4, 200 + shade / 4, 215 + shade / 5);
    }
  }
  for (int i = 0; i < 14; i++) {
    double phase = t + i / 14.0;
    phase -= floor(phase);
    const double near = phase * phase * phase;
    const int height = static_cast<int>(h * (0.04 + 0.75 * near)), base = horizon + static_cast<int>((h - horizon) * near * 0.95);
    const int x0 = static_cast<int>(w / 2 + (i & 1 ? 1 : -1) * (w * 0.06 + near * w * 0.5) + sway * near);
    for (int y = base - height < 0 ? 0 : base - height; y < base && y < h; y++) {
      const int half = (y - base + height) * height / 3 / (height + 1);
      for (int x = x0 - half; x <= x0 + half; x++)
        if (x >= 0 && x < w) {
          const int shade = tex[((y * 3) & 1023) * 1024 + ((x * 3 + i * 91) & 1023)];
          px[y * w + x] = rgb(18 + shade / 6, 60 + shade / 2, 30 + shade / 6);
        }
    }
  }
}

// A card with flat fields, ramps, fine lines and text-like detail.
void renderCard(uint32_t* px, int w, int h, const std::vector<uint8_t>& tex) {
  const uint32_t bars[8] = {0xebebeb, 0xd2d200, 0x00d2d2, 0x00c800, 0xc800c8, 0xd20000, 0x0000d2, 0x101010};
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      uint32_t c;
      if (y < h / 2) c = bars[x * 8 / w];
      else if (y < h * 5 / 8) c = rgb(x * 255 / w, x * 255 / w, x * 255 / w);
      else if (y < h * 3 / 4) c = (x / 4 + y / 4) & 1 ? 0xd0d0d0 : 0x303030;
      else {
        const int shade = tex[((y * 1) & 1023) * 1024 + (x & 1023)];
        c = rgb(40 + shade, 60 + shade * 3 / 4, 90 + shade / 2);
      }
      px[y * w + x] = c;
    }
}

void stamp(uint32_t* px, int w, uint32_t number) {
  for (int bit = 0; bit < 32 && (bit + 1) * 16 <= w; bit++) {
    const uint32_t c = number >> (31 - bit) & 1 ? 0xffffff : 0x000000;
    for (int y = 0; y < 16; y++)
      for (int x = 0; x < 16; x++) px[y * w + bit * 16 + x] = c;
  }
}

void fillCorner(uint32_t* px, int w, int h, bool white) {
  for (int y = h - kCorner; y < h; y++)
    for (int x = w - kCorner; x < w; x++) px[y * w + x] = white ? 0xffffff : 0x000000;
}

uint64_t nowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

}  // namespace

int main(int argc, char** argv) {
  double hz = 60, seconds = 0;
  int distinct = 60, flips = 0;
  uint32_t seed = 1;
  bool card = false, print = false, times = false, corner = false;
  for (int i = 1; i < argc; i++) {
    const auto next = [&] { return i + 1 < argc ? atof(argv[++i]) : 0; };
    if (!strcmp(argv[i], "--hz")) hz = next();
    else if (!strcmp(argv[i], "--seconds")) seconds = next();
    else if (!strcmp(argv[i], "--distinct")) distinct = static_cast<int>(next());
    else if (!strcmp(argv[i], "--card")) card = true;
    else if (!strcmp(argv[i], "--print")) print = true;
    else if (!strcmp(argv[i], "--times")) times = true;
    else if (!strcmp(argv[i], "--flips")) flips = static_cast<int>(next());
    else if (!strcmp(argv[i], "--corner")) corner = true;
    else if (!strcmp(argv[i], "--seed")) seed = static_cast<uint32_t>(next());
    else return fprintf(stderr, "player: unknown option %s\n", argv[i]), 2;
  }
  if (hz <= 0 || distinct < 1) return fprintf(stderr, "player: --hz and --distinct must be positive\n"), 2;
  signal(SIGTERM, [](int) { stopped = 1; });
  signal(SIGINT, [](int) { stopped = 1; });

  xcb_connection_t* c = xcb_connect(nullptr, nullptr);
  if (xcb_connection_has_error(c)) return fprintf(stderr, "player: cannot open the display\n"), 1;
  xcb_screen_t* screen = xcb_setup_roots_iterator(xcb_get_setup(c)).data;
  const int w = screen->width_in_pixels, h = screen->height_in_pixels;
  const size_t bytes = size_t(w) * h * 4;
  if (card) distinct = 1;
  if (flips > 0 && (w < 2 * kCorner || h < 2 * kCorner)) return fprintf(stderr, "player: too small for flips\n"), 1;
  const bool stillFlips = flips > 0 && !corner;
  if (stillFlips) distinct = 2;

  const xcb_window_t window = xcb_generate_id(c);
  const uint32_t values[] = {0, 1};  // black, override-redirect
  xcb_create_window(c, XCB_COPY_FROM_PARENT, window, screen->root, 0, 0, w, h, 0, XCB_WINDOW_CLASS_INPUT_OUTPUT,
                    screen->root_visual, XCB_CW_BACK_PIXEL | XCB_CW_OVERRIDE_REDIRECT, values);
  xcb_map_window(c, window);
  const xcb_gcontext_t gc = xcb_generate_id(c);
  xcb_create_gc(c, gc, window, 0, nullptr);

  // One segment for each picture, so that showing one costs a single request and no copy on this side.
  const auto tex = texture();
  std::vector<uint32_t*> pixels;
  std::vector<xcb_shm_seg_t> segments;
  for (int i = 0; i < distinct; i++) {
    const int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0666);
    if (id < 0) return perror("player: shmget"), 1;
    auto* px = static_cast<uint32_t*>(shmat(id, nullptr, 0));
    const xcb_shm_seg_t seg = xcb_generate_id(c);
    xcb_generic_error_t* error = xcb_request_check(c, xcb_shm_attach_checked(c, seg, id, 0));
    shmctl(id, IPC_RMID, nullptr);
    if (error) return fprintf(stderr, "player: the display refuses shared memory\n"), 1;
    if (card) renderCard(px, w, h, tex);
    else if (stillFlips && i == 1) renderCard(px, w, h, tex);
    else renderRace(px, w, h, i, distinct, tex);
    if (flips > 0) fillCorner(px, w, h, stillFlips && i == 1);
    pixels.push_back(px);
    segments.push_back(seg);
  }
  fprintf(stdout, "ready %dx%d\n", w, h);
  fflush(stdout);

  // Ends with a round trip: the server has read the picture before it is drawn on again.
  const auto show = [&](int i, int x, int y, int width, int height) {
    xcb_shm_put_image(c, window, gc, w, h, x, y, width, height, x, y, 24, XCB_IMAGE_FORMAT_Z_PIXMAP, 0, segments[i], 0);
    free(xcb_get_input_focus_reply(c, xcb_get_input_focus(c), nullptr));
    return !xcb_connection_has_error(c);
  };
  const auto sleepUntil = [](uint64_t ns) {
    const timespec at = {static_cast<time_t>(ns / 1000000000ull), static_cast<long>(ns % 1000000000ull)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
  };

  std::mt19937 random(seed);
  const auto pauseNs = [&] { return 140000000ull + random() % 120000000u; };
  int flip = 0;
  bool white = false;
  const uint64_t t0 = nowNs();
  // Time for the pipeline to settle on what it sees.
  uint64_t nextFlip = flips > 0 ? t0 + 1000000000ull + pauseNs() : UINT64_MAX;
  const double interval = 1e9 / hz;
  for (uint64_t n = 0; !stopped;) {
    if (seconds > 0 && n * interval > seconds * 1e9) break;
    const int i = static_cast<int>(n % distinct);
    const bool moves = !card && !stillFlips;
    if (moves) {
      stamp(pixels[i], w, static_cast<uint32_t>(n));
      if (flips > 0) fillCorner(pixels[i], w, h, white);
    }
    bool shown = true;
    if (moves || n == 0) shown = show(i, 0, 0, w, h);
    if (times && moves) {
      printf("shown %llu %llu\n", static_cast<unsigned long long>(n), static_cast<unsigned long long>(nowNs()));
      fflush(stdout);
    }
    if (print && n % 1000 == 0) printf("shown %llu\n", static_cast<unsigned long long>(n)), fflush(stdout);
    n++;
    const uint64_t next = t0 + static_cast<uint64_t>(n * interval);
    while (shown && flip < flips && nextFlip < next && !stopped) {
      sleepUntil(nextFlip);
      white = !white;
      if (corner) {
        fillCorner(pixels[i], w, h, white);
        shown = show(i, w - kCorner, h - kCorner, kCorner, kCorner);
      } else {
        shown = show(white, 0, 0, w, h);
      }
      const uint64_t at = nowNs();
      printf("flip %d %d %llu\n", ++flip, white, static_cast<unsigned long long>(at));
      if (flip == flips) printf("flips done\n");
      fflush(stdout);
      nextFlip = at + pauseNs();
    }
    if (!shown) return fprintf(stderr, "player: the display has gone\n"), 1;
    sleepUntil(next);
  }
  xcb_disconnect(c);
  return 0;
}
