#include "ingot/dist/shared_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/dist/waits.h"

namespace ingot::dist {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 18;  // bytes of a message that go at once
constexpr std::size_t kHeader = 4096;                  // a page: the flags share no line with anybody's data

// What a rank tells the others. Aligned apart, as every rank polls those of the others.
struct Flags {
  alignas(64) std::atomic<std::uint32_t> operation;  ///< that it has come to, counted from 1; wraps
  std::atomic<std::uint32_t> sleeping;               ///< ranks that sleep until that changes
};
static_assert(sizeof(Flags) <= kHeader && std::atomic<std::uint32_t>::is_always_lock_free);

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Until the word changes, for a while, or somebody wakes all.
void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  constexpr long kNanoseconds = 50'000'000;
  const timespec most{.tv_sec = 0, .tv_nsec = kNanoseconds};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &most, nullptr, 0);
}
void wake_all(std::atomic<std::uint32_t>& word) {
  constexpr int kAll = 1 << 20;
  syscall(SYS_futex, &word, FUTEX_WAKE, kAll, nullptr, nullptr, 0);
}

// Each rank has a block: flags, and two buffers that operations take in turn. A rank comes to operation n by
// writing into buffer n mod 2 of its block and raising its flag to n; the others then read there. So it has
// read all of n − 1 before its flag is n, and a buffer is free again once every flag has reached the
// operation after the buffer's last.
class SharedMemory final : public Communicator {
 public:
  SharedMemory(Communicator& base, std::vector<std::span<std::byte>> blocks)
      : base_(base), blocks_(std::move(blocks)) {
    flags_.reserve(blocks_.size());
    for (std::span<std::byte>& block : blocks_) flags_.push_back(reinterpret_cast<Flags*>(block.data()));
    set_timeout(base.timeout());
    Communicator::set_timeout_name(base.timeout_name());
    // As threads of a parallel loop do (cli/thread_waiting.cpp); not where ranks wait for each other's
    // processor.
    const bool own_processors = base.local_size() <= sysconf(_SC_NPROCESSORS_ONLN);
    spin_seconds_ = own_processors ? 500e-6 : 5e-6;
  }
  static constexpr std::size_t kBlock = kHeader + 2 * kBuffer;

  int rank() const override { return base_.rank(); }
  int size() const override { return base_.size(); }
  int local_rank() const override { return base_.local_rank(); }
  int local_size() const override { return base_.local_size(); }
  std::string engine() const override { return "shared memory, " + base_.engine(); }

  void barrier() override {
    begin("barrier");
    arrive();
    wait_for_all(operation_, "barrier");
  }

  void broadcast(std::span<std::byte> data, int root) override {
    in_pieces(data.size(), kBuffer, [&](std::size_t at, std::size_t bytes) {
      begin("broadcast");
      if (rank() == root) {
        wait_until_free("broadcast");
        std::memcpy(buffer(root), data.data() + at, bytes);
        return arrive();
      }
      arrive();
      wait_for(root, operation_, "broadcast");
      std::memcpy(data.data() + at, buffer(root), bytes);
    });
  }

  void all_reduce(std::span<float> values) override {
    in_pieces(values.size(), kBuffer / sizeof(float), [&](std::size_t at, std::size_t count) {
      begin("all-reduce");
      wait_until_free("all-reduce");
      const std::span<float> piece = values.subspan(at, count);
      std::memcpy(buffer(rank()), piece.data(), piece.size_bytes());
      arrive();
      wait_for_all(operation_, "all-reduce");
      sum(piece);
    });
  }

  using Communicator::all_gather;
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    in_pieces(mine.size(), kBuffer, [&](std::size_t at, std::size_t bytes) {
      begin("all-gather");
      wait_until_free("all-gather");
      std::memcpy(buffer(rank()), mine.data() + at, bytes);
      arrive();
      for (int other = 0; other < size(); ++other) {
        wait_for(other, operation_, "all-gather");
        std::memcpy(all.data() + static_cast<std::size_t>(other) * mine.size() + at, buffer(other), bytes);
      }
    });
  }
  void all_gather(std::span<std::byte> all, std::span<const Slice> slices) override {
    base_.all_gather(all, slices);
  }
  void all_to_all(std::span<const std::byte> from, std::span<const Slice> slices,
                  std::span<std::byte> to) override {
    base_.all_to_all(from, slices, to);
  }
  void send(std::span<const std::byte> data, int to) override { base_.send(data, to); }
  void receive(std::span<std::byte> data, int from) override { base_.receive(data, from); }
  // g++ misses that calls of these never return.
  [[noreturn]] void abort(int exit_code) override {
    base_.abort(exit_code);
    std::abort();
  }
  bool another_gave_up() override { return base_.another_gave_up(); }
  [[noreturn]] void give_up(const Waiting& own) override {
    base_.give_up(own);
    std::abort();
  }
  void set_timeout_name(std::string name) override {
    base_.set_timeout_name(name);
    Communicator::set_timeout_name(std::move(name));
  }
  void set_activity(std::string activity) override {
    base_.set_activity(activity);
    Communicator::set_activity(std::move(activity));
  }
  void set_preparing(bool prepares) override { base_.set_preparing(prepares); }
  void set_position(std::int64_t operation, const char* what) override {
    base_.set_position(operation, what);
  }
  Waiting position() const override {
    return {.operation = operation_, .what = last_, .activity = activity()};
  }
  using Communicator::tell_failure;
  void tell_failure(const Waiting& own) noexcept override { base_.tell_failure(own); }

 private:
  // At least one piece, as an empty message is one, too.
  template <class Work>
  static void in_pieces(std::size_t whole, std::size_t most, Work&& work) {
    std::size_t at = 0;
    do {
      work(at, std::min(most, whole - at));
      at += most;
    } while (at < whole);
  }

  Flags& flags(int rank) const { return *flags_[static_cast<std::size_t>(rank)]; }
  std::byte* buffer(int rank) const {
    return blocks_[static_cast<std::size_t>(rank)].data() + kHeader + operation_ % 2 * kBuffer;
  }

  void begin(const char* what) {
    ++operation_;
    last_ = what;
    base_.set_position(operation_, what);
  }
  void arrive() {
    Flags& own = flags(rank());
    own.operation.store(operation_);  // before `sleeping` is looked at, as who sleeps does it the other way
    if (own.sleeping.load() > 0) wake_all(own.operation);
  }
  void wait_until_free(const char* what) { wait_for_all(operation_ - 1, what); }
  void wait_for_all(std::uint32_t operation, const char* what) {
    for (int other = 0; other < size(); ++other) wait_for(other, operation, what);
  }

  static bool reached(std::uint32_t now, std::uint32_t wanted) {
    return static_cast<std::int32_t>(now - wanted) >= 0;
  }

  void wait_for(int other, std::uint32_t wanted, const char* what) {
    constexpr int kLooks = 64;  // between two readings of the clock
    Flags& flags = this->flags(other);
    const Stopwatch since;
    while (true) {
      for (int i = 0; i < kLooks; ++i) {
        if (reached(flags.operation.load(std::memory_order_acquire), wanted)) return;
        pause_processor();
      }
      const double waited = since.seconds();
      if (waited < spin_seconds_) continue;
      sleep_until_changed(flags, wanted);
      const bool late = timeout() > 0 && waited > timeout();
      if (late || (waited > kLookSeconds && base_.another_gave_up()))
        give_up({.operation = operation_, .seconds = waited, .what = what, .activity = activity()});
    }
  }

  static void sleep_until_changed(Flags& flags, std::uint32_t wanted) {
    ++flags.sleeping;
    const std::uint32_t now = flags.operation.load();
    if (!reached(now, wanted)) sleep_on(flags.operation, now);
    --flags.sleeping;
  }

  void sum(std::span<float> values) const {
    constexpr std::int64_t kGrain = 16384;
    parallel_for(std::ssize(values), kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto from = [&](int rank) { return reinterpret_cast<const float*>(buffer(rank)); };
      float* to = values.data();
      const float* first = from(0);
      if (rank() != 0) std::copy(first + begin, first + end, to + begin);
      for (int other = 1; other < size(); ++other) {
        const float* more = from(other);
        for (std::int64_t i = begin; i < end; ++i) to[i] += more[i];
      }
    });
  }

  Communicator& base_;
  std::vector<std::span<std::byte>> blocks_;
  std::vector<Flags*> flags_;
  std::uint32_t operation_ = 0;
  const char* last_ = "";
  double spin_seconds_;
};

}  // namespace

std::unique_ptr<Communicator> over_shared_memory(Communicator& base) {
  auto blocks = base.shared_memory(SharedMemory::kBlock);
  if (blocks.empty()) return nullptr;
  return std::make_unique<SharedMemory>(base, std::move(blocks));
}

}  // namespace ingot::dist
