// The memory of captured pictures: an anonymous file, so that an X server under another account can be handed
// it.
#include "picture.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fault.h"

namespace svc {

PicturePool::PicturePool(int width, int height)
    : width_(width),
      height_(height),
      slot_bytes_((static_cast<size_t>(width) * static_cast<size_t>(height) * 4 + 4095) & ~size_t{4095}) {
  const size_t bytes = slot_bytes_ * kSlots;
  fd_ = memfd_create("svc-host pictures", MFD_CLOEXEC);
  void* at = MAP_FAILED;
  if (fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(bytes)) == 0) {
    at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  }
  if (at == MAP_FAILED) {
    if (fd_ >= 0) close(fd_);
    throw Fault("source", "no-memory",
                "no memory for pictures of " + std::to_string(width) + "x" + std::to_string(height) +
                    "; free some, or ask for a smaller display");
  }
  base_ = static_cast<uint8_t*>(at);
}

PicturePool::~PicturePool() {
  munmap(base_, slot_bytes_ * kSlots);
  close(fd_);
}

int PicturePool::claim() {
  for (int slot = 0; slot < kSlots; slot++) {
    int nobody = 0;
    if (holders_[static_cast<size_t>(slot)].compare_exchange_strong(nobody, 1, std::memory_order_acquire))
      return slot;
  }
  return -1;
}

}  // namespace svc
