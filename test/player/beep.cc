// Flashes an X display and beeps at the same moments: the subject of the tests of sound against picture.
//
// beep [--seconds N]
//   --seconds   how long, default 0: until it is ended
// The window covers the whole root. In the first tenth of each second of the monotonic clock it is white and the sound is
// 440 Hz; otherwise it is black and silent. What is written to the sound server is placed by the time at which the
// server says that it will be heard.
#include <math.h>
#include <pulse/simple.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xcb/xcb.h>

#include <thread>

namespace {

volatile sig_atomic_t stopped = 0;

constexpr int kRate = 48000;
constexpr int kPiece = 240;

int64_t now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000 + t.tv_nsec / 1000;
}

void sleep_until(int64_t us) {
  const timespec at = {static_cast<time_t>(us / 1000000), static_cast<long>(us % 1000000) * 1000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
}

int beep() {
  const pa_sample_spec spec = {PA_SAMPLE_FLOAT32NE, kRate, 2};
  // 20 ms at the server: what is written is heard soon.
  const uint32_t unset = UINT32_MAX, room = kRate / 50 * 8;
  const pa_buffer_attr attr = {room, room, 0, kPiece * 8, unset};
  int error = 0;
  pa_simple* out = pa_simple_new(nullptr, "beep", PA_STREAM_PLAYBACK, nullptr, "beep", &spec, nullptr, &attr, &error);
  if (!out) return fprintf(stderr, "beep: no sound server\n"), 1;
  float piece[kPiece * 2];
  double begun_us = -1;
  while (!stopped) {
    const double heard = static_cast<double>(now_us()) + static_cast<double>(pa_simple_get_latency(out, &error));
    for (int i = 0; i < kPiece; i++) {
      const double at = heard + i * 1e6 / kRate;
      const double into = fmod(at, 1e6);
      // Begun once a second and then counted in samples, so that a server's jitter does not tear the tone.
      if (begun_us < 0 && into < 5000) begun_us = 0;
      float sample = 0;
      if (begun_us >= 0) {
        sample = 0.5F * static_cast<float>(sin(2 * M_PI * 440 * begun_us / 1e6));
        begun_us += 1e6 / kRate;
        if (begun_us > 100000) begun_us = -1;
      }
      piece[i * 2] = piece[i * 2 + 1] = sample;
    }
    if (pa_simple_write(out, piece, sizeof piece, &error) < 0) return fprintf(stderr, "beep: the sound server has gone\n"), 1;
  }
  pa_simple_free(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--seconds") && i + 1 < argc) seconds = atof(argv[++i]);
    else return fprintf(stderr, "beep: unknown option %s\n", argv[i]), 2;
  }
  signal(SIGTERM, [](int) { stopped = 1; });
  signal(SIGINT, [](int) { stopped = 1; });
  xcb_connection_t* c = xcb_connect(nullptr, nullptr);
  if (xcb_connection_has_error(c)) return fprintf(stderr, "beep: cannot open the display\n"), 1;
  xcb_screen_t* screen = xcb_setup_roots_iterator(xcb_get_setup(c)).data;
  const xcb_window_t window = xcb_generate_id(c);
  const uint32_t values[] = {0, 1};  // black, override-redirect
  xcb_create_window(c, XCB_COPY_FROM_PARENT, window, screen->root, 0, 0, screen->width_in_pixels,
                    screen->height_in_pixels, 0, XCB_WINDOW_CLASS_INPUT_OUTPUT, screen->root_visual,
                    XCB_CW_BACK_PIXEL | XCB_CW_OVERRIDE_REDIRECT, values);
  xcb_map_window(c, window);
  xcb_flush(c);
  int code = 0;
  std::thread sound([&] { code = beep(); });
  const int64_t start = now_us(), end = seconds > 0 ? start + static_cast<int64_t>(seconds * 1e6) : INT64_MAX;
  const auto show = [&](uint32_t colour) {
    xcb_change_window_attributes(c, window, XCB_CW_BACK_PIXEL, &colour);
    xcb_clear_area(c, 0, window, 0, 0, 0, 0);
    xcb_flush(c);
  };
  for (int64_t second = start / 1000000 + 1; !stopped && second * 1000000 < end; second++) {
    sleep_until(second * 1000000);
    show(0xffffff);
    sleep_until(second * 1000000 + 100000);
    show(0);
  }
  stopped = 1;
  sound.join();
  xcb_disconnect(c);
  return code;
}
