#include "tests/emulated_gpu/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ingot/base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#endif

namespace ingot::kernels::cuda::emulation {
namespace {

constexpr std::size_t kReserved = std::size_t{64} << 30;  // of addresses, not of memory
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 256;
constexpr unsigned char kPoison = 0xff;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

void explain_faults();

class Arena {
 public:
  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (base_ == nullptr) reserve();
    if (bytes > memory_ - std::min(memory_, used_)) return nullptr;
    const std::size_t whole = round_up(bytes + kGuard, kAlignment) + kAlignment;
    auto hole = std::ranges::find_if(holes_, [&](const auto& h) { return h.second >= whole; });
    if (hole == holes_.end()) return nullptr;
    const std::size_t at = hole->first, size = hole->second;
    holes_.erase(hole);
    if (size > whole) holes_[at + whole] = size - whole;
    high_ = std::max(high_, at + whole);
    used_ += bytes;
    blocks_[at] = {bytes, whole};
    open();
    char* data = base_ + at + kAlignment;
    ASAN_UNPOISON_MEMORY_REGION(base_ + at, whole);
    std::memset(base_ + at, kGuardByte, whole);
    std::memset(data, kPoison, bytes);
    ASAN_POISON_MEMORY_REGION(base_ + at, kAlignment);
    ASAN_POISON_MEMORY_REGION(data + bytes, whole - kAlignment - bytes);
    close();
    return data;
  }

  void deallocate(void* data) noexcept {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(static_cast<std::size_t>(static_cast<char*>(data) - base_) - kAlignment);
    INGOT_ASSERT(block != blocks_.end());
    const auto [at, sizes] = *block;
    open();
    std::memset(data, kPoison, sizes.bytes);
    close();
    ASAN_POISON_MEMORY_REGION(base_ + at, sizes.whole);
    used_ -= sizes.bytes;
    blocks_.erase(block);
    free(at, sizes.whole);
  }

  void check_guards([[maybe_unused]] const char* by) {
    const std::lock_guard lock(mutex_);
#if !defined(__SANITIZE_ADDRESS__)  // which sees the very instruction
    if (depth_ == 0) return;
    for (const auto& [at, sizes] : blocks_) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(base_ + at);
      const auto intact = [](const unsigned char* from, std::size_t n) {
        return std::all_of(from, from + n, [](unsigned char c) { return c == kGuardByte; });
      };
      INGOT_CHECK(intact(bytes + kAlignment - kGuard, kGuard),
                  KernelError(by, fmt::format("wrote before a block of {} bytes", sizes.bytes)));
      INGOT_CHECK(intact(bytes + kAlignment + sizes.bytes, sizes.whole - kAlignment - sizes.bytes),
                  KernelError(by, fmt::format("wrote behind a block of {} bytes", sizes.bytes)));
    }
#endif
  }

  bool holds(const void* data) const {
    const char* base = base_;
    return base != nullptr && data >= base && data < base + kReserved;
  }
  void open() {
    if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() {
    if (--depth_ == 0) protect(PROT_NONE);
  }

  std::recursive_mutex& mutex() { return mutex_; }
  std::size_t memory_ = std::size_t{2} << 30;
  std::size_t used_ = 0;

 private:
  struct Sizes {
    std::size_t bytes, whole;
  };

  void reserve() {
    void* mapped = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    INGOT_ASSERT(mapped != MAP_FAILED);
    base_ = static_cast<char*>(mapped);
    madvise(mapped, kReserved, MADV_HUGEPAGE);  // a wish: protect() takes a time for each page
    holes_[0] = kReserved;
    explain_faults();
  }

  void protect(int access) {
    if (high_ > 0) INGOT_ASSERT(mprotect(base_, round_up(high_, kHugePage), access) == 0);
  }

  void free(std::size_t at, std::size_t size) {
    auto [hole, inserted] = holes_.emplace(at, size);
    if (const auto after = std::next(hole);
        after != holes_.end() && hole->first + hole->second == after->first) {
      hole->second += after->second;
      holes_.erase(after);
    }
    if (hole == holes_.begin()) return;
    if (const auto before = std::prev(hole); before->first + before->second == hole->first) {
      before->second += hole->second;
      holes_.erase(hole);
    }
  }

  mutable std::recursive_mutex mutex_;
  std::atomic<char*> base_ = nullptr;  // from the first block on
  std::size_t high_ = 0;
  int depth_ = 0;
  std::map<std::size_t, std::size_t> holes_;
  std::map<std::size_t, Sizes> blocks_;
};

Arena& arena_of(int device) {
  static auto& arenas = *new std::array<Arena, kMostDevices>;  // live as long as static tensors may
  return arenas.at(static_cast<std::size_t>(device));
}
Arena& current_arena() { return arena_of(current_device()); }

// Returning runs the faulting instruction again, this time without us.
void explain(int, siginfo_t* info, void*) {
  constexpr char kText[] =
      "host code, or a kernel on another device, touched the memory of an emulated CUDA device: a kernel's "
      "host part, or an op, read or wrote through a device pointer; copy first\n";
  if (device_of(info->si_addr).has_value()) [[maybe_unused]]
    const auto written = write(2, kText, sizeof kText - 1);
}
void explain_faults() {
  struct sigaction action {};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND;
  sigaction(SIGSEGV, &action, nullptr);
}

int device_count = 1;
std::array<bool, kMostDevices> lost_devices{};
thread_local int device_in_use = 0;

}  // namespace

int devices() { return device_count; }
void set_devices(int count) { device_count = count; }
int current_device() { return device_in_use; }
void use_device(int device) { device_in_use = device; }
void set_lost(int device, bool lost) { lost_devices.at(static_cast<std::size_t>(device)) = lost; }
bool is_lost(int device) { return lost_devices.at(static_cast<std::size_t>(device)); }

void* allocate(std::size_t bytes) { return current_arena().allocate(bytes); }
void deallocate(void* data) noexcept {
  const std::optional<int> device = device_of(data);
  INGOT_ASSERT(device.has_value());
  arena_of(*device).deallocate(data);
}
std::size_t device_memory() { return current_arena().memory_; }
void set_device_memory(std::size_t bytes) { current_arena().memory_ = bytes; }
std::size_t free_memory() {
  const Arena& arena = current_arena();
  return arena.memory_ - std::min(arena.memory_, arena.used_);
}
std::optional<int> device_of(const void* data) {
  for (int device = 0; device < kMostDevices; ++device) {
    if (arena_of(device).holds(data)) return device;
  }
  return std::nullopt;
}
void check_guards(const char* by) {
  for (int device = 0; device < kMostDevices; ++device) arena_of(device).check_guards(by);
}

Access::Access(int device) : begin_(device), end_(device + 1) {
  arena_of(device).mutex().lock();
  arena_of(device).open();
}
Access::Access() : begin_(0), end_(kMostDevices) {
  for (int device = begin_; device < end_; ++device) {
    arena_of(device).mutex().lock();
    arena_of(device).open();
  }
}
Access::~Access() {
  for (int device = begin_; device < end_; ++device) {
    arena_of(device).close();
    arena_of(device).mutex().unlock();
  }
}

}  // namespace ingot::kernels::cuda::emulation
