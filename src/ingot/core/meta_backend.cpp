#include "ingot/core/meta_backend.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

#include <sys/mman.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

// Apart, so that no two allocations look like parts of one.
constexpr std::size_t kGap = 4096;
constexpr std::size_t kMostSpace = std::size_t{1} << 40, kLeastSpace = std::size_t{1} << 28;

/// Addresses that nothing else has. What little is written there by mistake is given back by reset().
class AddressSpace {
 public:
  AddressSpace() {
    for (size_ = kMostSpace; size_ >= kLeastSpace; size_ /= 2) {
      void* memory =
          ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) continue;
      begin_ = static_cast<std::byte*>(memory);
      return;
    }
    throw OutOfMemory("address space of the meta device", kLeastSpace, 0, 0);
  }

  /// From the beginning again at the end: what a run holds at once is to fit.
  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t wanted = (std::min(bytes, size_ - kGap) + 2 * kGap - 1) / kGap * kGap;
    if (wanted > size_ - used_) used_ = 0;
    void* const data = begin_ + used_;
    used_ += std::min(wanted, size_ - used_);
    most_ = std::max(most_, used_);
    return data;
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    ::madvise(begin_, most_, MADV_DONTNEED);
    used_ = most_ = 0;
  }
  bool holds(const void* data) const {
    const auto at = reinterpret_cast<std::uintptr_t>(data), begin = reinterpret_cast<std::uintptr_t>(begin_);
    return at >= begin && at < begin + size_;
  }

 private:
  std::byte* begin_ = nullptr;
  std::size_t size_ = 0, used_ = 0, most_ = 0;
  std::mutex mutex_;
};

class MetaBackend final : public ComputeBackend {
 public:
  void imitate(const BackendCapabilities& like) {
    capabilities_ = like;
    capabilities_.host_memory = capabilities_.graph_capture = false;
    space_.reset();
  }

  Device device() const override { return kMeta; }
  std::string_view name() const override { return "meta"; }
  std::string version() const override { return "1"; }
  const BackendCapabilities& capabilities() const override { return capabilities_; }
  BackendStatus status() const override { return {}; }
  void shutdown() override {}

  void* allocate(std::size_t bytes, MemoryTag tag) override {
    tracker_.allocate(bytes, tag, "meta");
    return space_.take(bytes);
  }
  void deallocate(void*, std::size_t bytes, MemoryTag tag) noexcept override {
    tracker_.deallocate(bytes, tag);
  }
  void* allocate_host(std::size_t bytes) override { return space_.take(bytes); }
  void deallocate_host(void*, std::size_t) noexcept override {}
  void trim() override {}
  MemoryInfo memory_info() const override {
    const std::size_t total = capabilities_.total_memory;
    return {.free = total - std::min(total, tracker_.allocated()), .total = total};
  }
  MemoryTracker& memory() override { return tracker_; }

  void copy(void* to, const void* from, std::size_t bytes, Stream) override {
    if (!space_.holds(to) && space_.holds(from)) std::memset(to, 0, bytes);
  }
  void fill_bytes(void*, std::uint8_t, std::size_t, Stream) override {}

  Stream create_stream() override { return {kMeta, nullptr}; }
  void destroy_stream(Stream) noexcept override {}
  void synchronize(Stream) override {}
  Event create_event() override { return {kMeta, nullptr}; }
  void destroy_event(Event) noexcept override {}
  void record(Event, Stream) override {}
  void wait(Stream, Event) override {}
  void synchronize(Event) override {}

 private:
  BackendCapabilities capabilities_;
  AddressSpace space_;
  MemoryTracker tracker_;
};

std::atomic<bool> present{false};

MetaBackend& instance() {
  // Never destroyed: tensors that caches keep may outlive a dry run.
  static auto* backend = new MetaBackend;
  return *backend;
}

}  // namespace

void set_meta_backend(const BackendCapabilities* like) {
  if (like != nullptr) instance().imitate(*like);
  present = like != nullptr;
}

ComputeBackend* meta_backend() { return present ? &instance() : nullptr; }

}  // namespace ingot
