#include "ingot/base/parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <span>
#include <vector>

#include <omp.h>
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include "ingot/base/error.h"
#include "ingot/base/parallel_threads.h"
#include "ingot/base/scope.h"

namespace ingot {

namespace {

// OpenMP keeps the number for each thread that starts regions; ours is the process', so that it holds for a
// scheduler's thread too. A thread takes it over when it asks next.
std::atomic<int> chosen_threads{0};
thread_local int taken_over = 0;
thread_local bool serial = false;

}  // namespace

int num_threads() {
  const int chosen = chosen_threads.load(std::memory_order_relaxed);
  if (chosen != taken_over) {
    omp_set_num_threads(chosen);
    taken_over = chosen;
  }
  return omp_get_max_threads();
}

void set_num_threads(int n) {
  // OpenMP ends the process where it cannot make them.
  constexpr int kMost = 4096;
  INGOT_CHECK(n > 0 && n <= kMost, InvalidConfig("threads", "must be 1 to " + std::to_string(kMost) +
                                                                ", got " + std::to_string(n)));
  chosen_threads.store(n, std::memory_order_relaxed);
  omp_set_num_threads(n);
  taken_over = n;
}

OneThread::OneThread() : before_(num_threads()) { omp_set_num_threads(1); }
OneThread::~OneThread() { omp_set_num_threads(before_); }

void release_threads() {
  if (!in_parallel()) omp_pause_resource(omp_pause_soft, omp_get_initial_device());
}

bool in_parallel() { return omp_in_parallel() != 0; }

void keep_thread_serial() { serial = true; }

namespace {

// libgomp is not instrumented, so ThreadSanitizer has to be told that a region's threads see what its caller
// wrote before, and its caller what they wrote. The function with the pragma is not looked at: what it hands
// over lies on its stack.
#if defined(__SANITIZE_THREAD__)
#define INGOT_NOT_BY_TSAN __attribute__((no_sanitize("thread")))
void hand_over(void* memory) { __tsan_release(memory); }
void take_over(void* memory) { __tsan_acquire(memory); }
#else
#define INGOT_NOT_BY_TSAN
void hand_over(void* /*memory*/) {}
void take_over(void* /*memory*/) {}
#endif

// What the threads of one parallel region share.
class Region {
 public:
  explicit Region(FunctionRef<void(std::int64_t)> body) : body_(body) {
    if (const Scope* around = Scope::innermost(); around != nullptr) name_ = around->name();
    hand_over(this);
  }

  void run(std::int64_t part) noexcept {
    take_over(this);
    try {
      const Scope scope(ScopeKind::work, name_, part);  // of what the caller does
      body_(part);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    hand_over(this);
  }
  void finish() {
    take_over(this);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  FunctionRef<void(std::int64_t)> body_;
  std::string_view name_;  // empty where nobody looks at scopes
  std::exception_ptr failure_;
  std::mutex mutex_;
};

INGOT_NOT_BY_TSAN void run_on_threads(Region& region, std::int64_t parts) {
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (std::int64_t part = 0; part < parts; ++part) region.run(part);
}

// Runs body(part) for each of `parts` on a thread of its own; rethrows one of their exceptions.
void run_parts(std::int64_t parts, FunctionRef<void(std::int64_t)> body) {
  Region region(body);
  run_on_threads(region, parts);
  region.finish();
}

std::int64_t part_count(std::int64_t n, std::int64_t grain) {
  grain = std::max<std::int64_t>(grain, 1);
  return serial || in_parallel() ? 1 : std::min<std::int64_t>(num_threads(), (n + grain - 1) / grain);
}

constexpr std::int64_t kFewShares = 64;  // that lie on the stack

struct alignas(64) Share {
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;
};

}  // namespace

void parallel_for(std::int64_t n, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body) {
  if (n <= 0) return;
  const std::int64_t parts = part_count(n, grain);
  if (parts <= 1) return body(0, n);
  run_parts(parts, [&](std::int64_t part) { body(n * part / parts, n * (part + 1) / parts); });
}

void parallel_share(std::int64_t n, std::int64_t grain, std::int64_t piece,
                    FunctionRef<void(std::int64_t, std::int64_t)> body) {
  if (n <= 0) return;
  const std::int64_t parts = part_count(n, grain);
  if (parts <= 1) return body(0, n);
  std::array<Share, kFewShares> few;
  std::vector<Share> many(parts > kFewShares ? static_cast<std::size_t>(parts) : 0);
  const std::span<Share> shares = many.empty() ? std::span<Share>(few) : std::span<Share>(many);
  for (std::int64_t part = 0; part < parts; ++part) {
    Share& share = shares[static_cast<std::size_t>(part)];
    share.next.store(n * part / parts, std::memory_order_relaxed);
    share.end = n * (part + 1) / parts;
  }
  piece = std::max<std::int64_t>(piece, 1);
  run_parts(parts, [&](std::int64_t part) {
    for (std::int64_t i = 0; i < parts; ++i) {
      Share& share = shares[static_cast<std::size_t>((part + i) % parts)];
      for (;;) {
        const std::int64_t begin = share.next.fetch_add(piece, std::memory_order_relaxed);
        if (begin >= share.end) break;
        body(begin, std::min(begin + piece, share.end));
      }
    }
  });
}

}  // namespace ingot
