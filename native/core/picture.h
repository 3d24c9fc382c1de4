// Captured pictures: a few slots in one shared mapping, counted by those who read them.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace svc {

/// Slots of one size, 32 bits a pixel (blue, green, red, unused in memory order), in memory that another
/// process may be given (`fd`).
class PicturePool {
 public:
  /// One is the newest, one is being written, and the others may be in the hands of encoders.
  static constexpr int kSlots = 4;

  PicturePool(int width, int height);
  ~PicturePool();
  PicturePool(const PicturePool&) = delete;
  PicturePool& operator=(const PicturePool&) = delete;

  int width() const { return width_; }
  int height() const { return height_; }
  int stride() const { return width_ * 4; }
  int fd() const { return fd_; }
  size_t offset(int slot) const { return static_cast<size_t>(slot) * slot_bytes_; }
  uint8_t* slot(int slot) const { return base_ + offset(slot); }

  /// A slot that nobody reads, now held once; -1 when there is none.
  int claim();
  void hold(int slot) { holders_[static_cast<size_t>(slot)].fetch_add(1, std::memory_order_relaxed); }
  void drop(int slot) { holders_[static_cast<size_t>(slot)].fetch_sub(1, std::memory_order_release); }

 private:
  int width_;
  int height_;
  size_t slot_bytes_;
  int fd_ = -1;
  uint8_t* base_ = nullptr;
  std::array<std::atomic<int>, kSlots> holders_{};
};

/// A picture that stays as it is for as long as this is kept.
class Picture {
 public:
  Picture() = default;
  /// Takes over one hold on `slot`.
  Picture(std::shared_ptr<PicturePool> pool, int slot) : pool_(std::move(pool)), slot_(slot) {}
  Picture(const Picture& other) : pool_(other.pool_), slot_(other.slot_), times_(other.times_) {
    if (pool_) pool_->hold(slot_);
  }
  Picture(Picture&& other) noexcept
      : pool_(std::move(other.pool_)), slot_(other.slot_), times_(other.times_) {}
  Picture& operator=(Picture other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(slot_, other.slot_);
    std::swap(times_, other.times_);
    return *this;
  }
  ~Picture() {
    if (pool_) pool_->drop(slot_);
  }

  struct Times {
    /// When the source learned that there is something new, when it began to take the picture, and when it
    /// had it.
    int64_t wanted_us = 0;
    int64_t begun_us = 0;
    int64_t done_us = 0;
  };

  explicit operator bool() const { return static_cast<bool>(pool_); }
  int width() const { return pool_->width(); }
  int height() const { return pool_->height(); }
  int stride() const { return pool_->stride(); }
  uint8_t* pixels() const { return pool_->slot(slot_); }
  int slot() const { return slot_; }
  const Times& times() const { return times_; }
  void set_times(const Times& times) { times_ = times; }

 private:
  std::shared_ptr<PicturePool> pool_;
  int slot_ = -1;
  Times times_;
};

}  // namespace svc
