#include "tests/emulated_gpu/block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/emulated_gpu/memory.h"
#include "tests/emulated_gpu/race_check.h"
#include <boost/context/detail/fcontext.hpp>
#include <fmt/format.h>
#include <sys/mman.h>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace ingot::kernels::cuda::emulation {

Position position;

namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMostThreads = 1024;
constexpr std::size_t kStack = 256 * 1024;
constexpr std::size_t kStaticSharedLimit = 48 * 1024;
/// What launch() does not ask the driver for: with more dynamic shared memory than that, it does.
constexpr std::size_t kAskedFrom = 32 * 1024;

constexpr std::size_t kNever = ~std::size_t{0};
/// Copies arrive after up to the square of this number of waits of their thread.
constexpr std::uint64_t kLatest = 24;

enum class State : std::uint8_t { not_started, ready, at_barrier, in_exchange, done };

struct AsyncCopy {
  void* to;
  const void* from;
  std::size_t bytes, zeros;
  std::size_t group;
  std::size_t moment = 0;  // at which it arrives, unless its thread waits for it before
  bool done = false;
  void run() {
    std::memcpy(to, from, bytes);
    std::memset(static_cast<char*>(to) + bytes, 0, zeros);
    done = true;
  }
  // It happens at some moment from the call to the wait for it: whoever comes in between would race with it.
  void claim() const {
    reads(from, bytes);
    writes(to, bytes + zeros);
  }
};

struct Thread {
  State state = State::not_started;
  Size3 index;
  int fiber = -1;
  unsigned mask = 0;  // of the exchange that it waits in
  std::uint64_t value = 0;
  SourceLocation where{};  // where it waits
  std::deque<AsyncCopy> copies;
  std::size_t groups = 0;  // of copies that were ended
  std::size_t moment = 0, next_landing = kNever;
};

// Where a stack goes on. Switching takes a few nanoseconds; swapcontext() calls the kernel for its signal
// mask. Boost's public fiber unwinds a stack that nobody returns to, as an exception through kernels; this
// leaves it.
using Context = boost::context::detail::fcontext_t;

// A stack on which threads run, one after the other, as long as none of them waits. Where races are looked
// for, each thread has one of its own: what another did there before would look like a race.
struct Fiber {
  Context context = nullptr;
  char* stack = nullptr;
  void* fake_stack = nullptr;
  Racer racer{};
};

// All that were ever needed; a deque, since they are referred to while more come. One grid runs at a time.
std::deque<Fiber>& fibers() {
  static auto* all = new std::deque<Fiber>;
  return *all;
}

struct SharedArray {
  std::unique_ptr<unsigned char[]> memory;
  std::size_t bytes = 0;
  void* data() const { return memory.get() + kGuard; }
};

// The blocks of a grid, one after the other.
class Block {
 public:
  Block(const char* kernel, const std::function<void()>& body, std::size_t dynamic_bytes)
      : kernel_(kernel), body_(body), dynamic_bytes_(dynamic_bytes) {}
  // The host knows what the grid did, also where an error ended it.
  ~Block() {
    for (const Thread& thread : threads_) {
      if (thread.fiber < 0) continue;
      const As as(fibers()[static_cast<std::size_t>(thread.fiber)].racer);
      tell(&end_);
    }
    learn(&end_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void run(Size3 index, Size3 size, std::uint64_t order) {
    set_up(index, size, order);
    tell(&start_);
    while (left_ > 0 && failure_ == nullptr) {
      if (runnable_.empty()) report_deadlock();
      step();
    }
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    check_shared();
  }

  void sync_threads(SourceLocation where) {
    void* const point = barrier_[set_].point();
    tell(point);
    {
      const Unseen unseen;
      self().state = State::at_barrier;
      self().where = where;
      if (++at_barrier_ == left_) open_barrier();
    }
    yield();
    learn(point);
  }

  void sync_warp(unsigned mask, SourceLocation where) {
    void* const point = warps_[set_][current_ / kWarp].point();
    tell(point);
    exchange(mask, 0, where);
    learn(point);
  }

  using Work = void (*)(const std::uint64_t* values);
  const std::uint64_t* exchange(unsigned mask, std::uint64_t value, SourceLocation where,
                                Work work = nullptr) {
    const unsigned first = current_ / kWarp * kWarp;
    meet(first, mask, value, where, work);
    yield();
    return snapshot_.data() + first;
  }

  void copy_async(const AsyncCopy& copy, SourceLocation where) {
    copy.claim();
    const Unseen unseen;
    const auto address =
        reinterpret_cast<std::uintptr_t>(copy.from) | reinterpret_cast<std::uintptr_t>(copy.to);
    if (address % (copy.bytes + copy.zeros) != 0) fail("a misaligned asynchronous copy", where);
    Thread& me = self();
    me.copies.push_back(copy);
    me.copies.back().group = me.groups;
    const auto later = static_cast<std::size_t>(rng_.below(kLatest));
    if (later == 0) return me.copies.back().run();
    me.copies.back().moment = me.moment + later * later;
    me.next_landing = std::min(me.next_landing, me.moment + later * later);
  }
  void commit_copies() { ++self().groups; }
  void wait_copies(std::size_t left) {
    Thread& me = self();
    while (!me.copies.empty() && me.copies.front().group + left < me.groups) {
      AsyncCopy& copy = me.copies.front();
      copy.claim();
      const Unseen unseen;
      if (!copy.done) copy.run();
      me.copies.pop_front();
    }
  }

  unsigned lane() const { return current_ % kWarp; }

  void* shared_array(const void* tag, std::size_t bytes) {
    const Unseen unseen;
    SharedArray& array = shared_[tag];
    if (array.memory == nullptr) {
      if (tag != this) static_shared_ += bytes;
      const std::size_t limit =
          dynamic_bytes_ > kAskedFrom ? shared_memory(current_device()) : kStaticSharedLimit;
      if (static_shared_ > kStaticSharedLimit || static_shared_ + dynamic_bytes_ > limit)
        fail(fmt::format("{} bytes of static and {} of dynamic shared memory are more than a block has",
                         static_shared_, dynamic_bytes_),
             {});
      array.bytes = bytes;
      array.memory = std::make_unique<unsigned char[]>(bytes + 2 * kGuard);
      std::memset(array.memory.get(), kGuardByte, bytes + 2 * kGuard);
      std::memset(array.data(), 0xff, bytes);
    }
    if (array.bytes != bytes) fail("a shared array has two sizes", {});
    return array.data();
  }
  void* dynamic_shared() {
    if (dynamic_bytes_ == 0) fail("the kernel uses dynamic shared memory but was launched without", {});
    return shared_array(this, dynamic_bytes_);
  }

  [[noreturn]] void fail(const std::string& problem, SourceLocation where) const {
    const Unseen unseen;
    throw KernelError(kernel_, fmt::format("{} (block {}, thread {}{})", problem, text(position.block),
                                           text(threads_[current_].index), text(where)));
  }

 private:
  Thread& self() { return threads_[current_]; }

  void set_up(Size3 index, Size3 size, std::uint64_t order) {
    const Unseen unseen;
    position.block = index;
    rng_ = Rng(RngKey{order, index.x + (std::uint64_t{index.y} << 24) + (std::uint64_t{index.z} << 48)});
    set_ = (set_ + 1) % kSets;
    const unsigned count = size.x * size.y * size.z;
    threads_.assign(count, {});
    snapshot_.assign(count, 0);
    for (unsigned i = 0; i < count; ++i)
      threads_[i].index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    shared_.clear();
    static_shared_ = 0;
    failure_ = nullptr;
    runnable_.resize(count);
    for (unsigned i = 0; i < count; ++i) runnable_[i] = i;
    idle_.clear();
    for (std::size_t i = 0; i < fibers().size(); ++i) idle_.push_back(static_cast<int>(i));
    left_ = count;
    at_barrier_ = 0;
  }

  static std::string text(Size3 at) { return fmt::format("[{}, {}, {}]", at.x, at.y, at.z); }
  static std::string text(SourceLocation where) {
    return where.line > 0 ? fmt::format(", {}:{}", where.file, where.line) : std::string();
  }

  // Lets the copies of a thread arrive whose moment has come. Its moments are those where it waits.
  static void land(Thread& thread) {
    const Unseen unseen;
    if (++thread.moment < thread.next_landing) return;
    thread.next_landing = kNever;
    for (AsyncCopy& copy : thread.copies) {
      if (copy.done) continue;
      if (copy.moment <= thread.moment) {
        copy.run();
      } else {
        thread.next_landing = std::min(thread.next_landing, copy.moment);
      }
    }
  }

  void make_ready(unsigned thread) {
    threads_[thread].state = State::ready;
    runnable_.push_back(thread);
  }

  // The current thread comes to an exchange; the last one makes it.
  void meet(unsigned first, unsigned mask, std::uint64_t value, SourceLocation where, Work work) {
    const Unseen unseen;
    if ((mask >> lane() & 1U) == 0) fail("a lane calls a warp function whose mask leaves it out", where);
    Thread& me = self();
    me.state = State::in_exchange;
    me.mask = mask;
    me.value = value;
    me.where = where;
    if (!all_in_exchange(first, mask, where)) return;
    for (unsigned i = 0; i < kWarp; ++i) {
      if ((mask >> i & 1U) == 0) continue;
      snapshot_[first + i] = threads_[first + i].value;
      make_ready(first + i);
    }
    if (mask == ~0U) warps_[set_][first / kWarp].end_round();
    if (work != nullptr) work(snapshot_.data() + first);
  }

  void open_barrier() {
    at_barrier_ = 0;
    barrier_[set_].end_round();
    SourceLocation where{};
    for (unsigned i = 0; i < threads_.size(); ++i) {
      if (threads_[i].state != State::at_barrier) continue;
      if (where.line == 0) where = threads_[i].where;
      if (threads_[i].where.line != where.line || std::strcmp(threads_[i].where.file, where.file) != 0)
        fail(fmt::format("threads of a block meet at different barriers:{} and{}", text(where),
                         text(threads_[i].where)),
             {});
      make_ready(i);
    }
  }

  bool all_in_exchange(unsigned first, unsigned mask, SourceLocation where) const {
    for (unsigned i = 0; i < kWarp; ++i) {
      if ((mask >> i & 1U) == 0) continue;
      if (first + i >= threads_.size())
        fail("the mask of a warp function names lanes beyond the block", where);
      const Thread& other = threads_[first + i];
      if (other.state == State::done) fail("the mask of a warp function names a lane that has ended", where);
      if (other.state != State::in_exchange) return false;
      if (other.mask != mask || other.where.line != where.line)
        fail(fmt::format("lanes of a warp wait in different warp functions:{}", text(other.where)), where);
    }
    return true;
  }

  [[noreturn]] void report_deadlock() {
    std::string waits;
    int barrier = 0, warp = 0;
    for (const Thread& thread : threads_) {
      if (thread.state == State::at_barrier && barrier++ == 0)
        waits += " at the barrier" + text(thread.where);
      if (thread.state == State::in_exchange && warp++ == 0)
        waits += " in a warp function" + text(thread.where);
    }
    throw KernelError(kernel_, fmt::format("deadlock in block {}: {} threads wait at a barrier, {} in warp "
                                           "functions, {} have ended;{}",
                                           text(position.block), barrier, warp,
                                           static_cast<int>(threads_.size()) - barrier - warp, waits));
  }

  // Lets a random thread that can run do so until it waits. Called on the main stack, and returns there.
  void step() {
    next_ = current_ = take_runnable();
    running_ = threads_[next_].fiber;
    if (running_ < 0) {
      running_ = kChecksRaces ? own_fiber(next_) : idle_fiber();
      prepare(fibers()[static_cast<std::size_t>(running_)]);
    }
    switch_to_fiber(fibers()[static_cast<std::size_t>(running_)]);
  }

  static void prepare(Fiber& fiber) {
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(fiber.stack, kStack);  // what an error left in the middle of a function
#endif
    fiber.context = boost::context::detail::make_fcontext(fiber.stack + kStack, kStack, &Block::enter);
  }

  unsigned take_runnable() {
    const auto at = static_cast<std::size_t>(rng_.below(runnable_.size()));
    const unsigned thread = runnable_[at];
    runnable_[at] = runnable_.back();
    runnable_.pop_back();
    return thread;
  }

  static char* new_stack() {
    const Unseen unseen;
    void* stack =
        mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    INGOT_ASSERT(stack != MAP_FAILED);
    return static_cast<char*>(stack);
  }

  int own_fiber(unsigned thread) const {
    const std::size_t at = set_ * kMostThreads + thread;
    while (fibers().size() <= at) fibers().emplace_back();
    if (Fiber& fiber = fibers()[at]; fiber.stack == nullptr) {
      fiber.stack = new_stack();
      fiber.racer = make_racer();
    }
    return static_cast<int>(at);
  }

  int idle_fiber() {
    if (idle_.empty()) {
      fibers().emplace_back().stack = new_stack();
      return static_cast<int>(fibers().size()) - 1;
    }
    const int fiber = idle_.back();
    idle_.pop_back();
    return fiber;
  }

  // The life of a fiber: threads that have not started yet, until one of them waits or a waiting one is
  // drawn.
  static void enter(boost::context::detail::transfer_t from);
  void run_threads() {
    arrive(fibers()[static_cast<std::size_t>(running_)]);
    for (unsigned thread = next_;;) {
      current_ = thread;
      threads_[thread].fiber = running_;
      threads_[thread].state = State::ready;
      position.thread = threads_[thread].index;
      try {
        run_body();
        if (!self().copies.empty()) fail("a thread ended without waiting for its asynchronous copies", {});
      } catch (...) {
        failure_ = std::current_exception();
      }
      threads_[current_].state = State::done;
      --left_;
      if (failure_ == nullptr) {
        try {
          after_end();
        } catch (...) {
          failure_ = std::current_exception();
        }
      }
      if (failure_ != nullptr || runnable_.empty() || kChecksRaces) break;
      thread = take_runnable();
      if (threads_[thread].state != State::not_started) {
        runnable_.push_back(thread);
        break;
      }
    }
    idle_.push_back(running_);
    leave(fibers()[static_cast<std::size_t>(running_)], true);
  }

  void run_body() {
    const As as(fibers()[static_cast<std::size_t>(running_)].racer);
    learn(&start_);
    body_();
    tell(&end_);
  }

  // The last thread that others at a barrier waited for may end instead of coming.
  void after_end() {
    if (left_ > 0 && at_barrier_ == left_) open_barrier();
  }

  void yield() {
    const unsigned me = current_;
    Fiber& fiber = fibers()[static_cast<std::size_t>(running_)];
    const As as(host_);
    land(self());
    leave(fiber, false);
    arrive(fiber);
    current_ = me;
    position.thread = threads_[me].index;
  }

  // Goes on there, and stores where it left when it comes back.
  static void jump(Context& to) { to = boost::context::detail::jump_fcontext(to, nullptr).fctx; }

#if defined(__SANITIZE_ADDRESS__)
  void switch_to_fiber(Fiber& fiber) {
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, fiber.stack, kStack);
    jump(fiber.context);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
  }
  void arrive(Fiber& fiber) { __sanitizer_finish_switch_fiber(fiber.fake_stack, &main_stack_, &main_size_); }
  void leave(Fiber& fiber, bool for_good) {
    fiber.fake_stack = nullptr;
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fiber.fake_stack, main_stack_, main_size_);
    jump(main_);
  }
  const void* main_stack_ = nullptr;
  std::size_t main_size_ = 0;
#else
  void switch_to_fiber(Fiber& fiber) { jump(fiber.context); }
  void arrive(Fiber&) {}
  void leave(Fiber&, bool) { jump(main_); }
#endif

  void check_shared() const {
    for (const auto& [tag, array] : shared_) {
      for (std::size_t i = 0; i < kGuard; ++i) {
        INGOT_CHECK(
            array.memory[i] == kGuardByte && array.memory[kGuard + array.bytes + i] == kGuardByte,
            KernelError(kernel_, fmt::format("wrote outside of a shared array of {} bytes", array.bytes)));
      }
    }
  }

  const char* kernel_;
  const std::function<void()>& body_;
  std::size_t dynamic_bytes_;
  std::vector<Thread> threads_;
  std::vector<std::uint64_t> snapshot_;
  std::vector<unsigned> runnable_;
  std::vector<int> idle_;
  std::unordered_map<const void*, SharedArray> shared_;
  std::size_t static_shared_ = 0;
  std::exception_ptr failure_;
  Context main_ = nullptr;
  Rng rng_;
  unsigned current_ = 0, next_ = 0, left_ = 0, at_barrier_ = 0;
  int running_ = -1;
  // Blocks take turns with two sets of racers, which nothing orders against each other but the grid's start
  // and end.
  static constexpr unsigned kSets = kChecksRaces ? 2 : 1;
  unsigned set_ = 0;
  Racer host_ = this_racer();
  std::size_t start_ = 0, end_ = 0;  // points
  std::array<Meeting, kSets> barrier_;
  std::array<std::array<Meeting, kMostThreads / kWarp>, kSets> warps_;
};

Block* active = nullptr;
std::uint64_t order = 1;
bool checks_only = false;

void Block::enter(boost::context::detail::transfer_t from) {
  active->main_ = from.fctx;
  active->run_threads();
}

// Scrambles [0, n): a multiplication by a number without a common divisor.
std::uint64_t scrambled(std::uint64_t i, std::uint64_t n, std::uint64_t seed) {
  constexpr std::array<std::uint64_t, 4> kPrimes{2654435761, 1299709, 7919, 104729};
  const std::uint64_t prime = kPrimes[seed % kPrimes.size()];
  return n % prime == 0 ? i : (i * prime + seed) % n;
}

}  // namespace

void run_grid(const char* kernel, Size3 grid, Size3 block, std::size_t shared_bytes,
              const std::function<void()>& body) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  INGOT_CHECK(threads > 0 && threads <= 1024 && block.z <= 64 && threads % kWarp == 0,
              KernelError(kernel, fmt::format("a block of {} x {} x {} threads; 32 to 1024, whole warps, are "
                                              "possible",
                                              block.x, block.y, block.z)));
  INGOT_CHECK(blocks > 0 && grid.x <= 0x7fffffffU && grid.y <= 65535 && grid.z <= 65535,
              KernelError(kernel, fmt::format("a grid of {} x {} x {} blocks is not possible", grid.x, grid.y,
                                              grid.z)));
  INGOT_CHECK(
      shared_bytes <= shared_memory(current_device()),
      KernelError(kernel, fmt::format("{} bytes of shared memory are more than a block has", shared_bytes)));
  if (checks_only) return;
  {
    const Access access(current_device());
    Block running(kernel, body, shared_bytes);
    active = &running;
    position.block_size = block;
    position.grid_size = grid;
    const std::uint64_t seed = order++;
    for (std::uint64_t i = 0; i < blocks; ++i) {
      const std::uint64_t at = scrambled(i, blocks, seed);
      running.run({static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                   static_cast<unsigned>(at / grid.x / grid.y)},
                  block, seed);
    }
    active = nullptr;
  }
  const Access access(current_device());
  check_guards(kernel);
}

void seed_order(std::uint64_t seed) { order = seed; }

ChecksOnly::ChecksOnly() { checks_only = true; }
ChecksOnly::~ChecksOnly() { checks_only = false; }

void sync_threads(SourceLocation where) { active->sync_threads(where); }
void sync_warp(unsigned mask, SourceLocation where) { active->sync_warp(mask, where); }
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source, SourceLocation where) {
  if ((mask >> source & 1U) == 0) active->fail("a lane reads from a lane outside of the mask", where);
  return active->exchange(mask, value, where)[source];
}
const std::uint64_t* gather(unsigned mask, std::uint64_t value, SourceLocation where) {
  return active->exchange(mask, value, where);
}
void collective(std::uint64_t value, void (*work)(const std::uint64_t* values), SourceLocation where) {
  active->exchange(0xffffffffU, value, where, work);
}
void copy_async(void* to, const void* from, std::size_t bytes, std::size_t zeros, SourceLocation where) {
  active->copy_async({to, from, bytes, zeros, 0}, where);
}
void commit_copies() { active->commit_copies(); }
void wait_copies(std::size_t left) { active->wait_copies(left); }
unsigned lane() { return active->lane(); }
void* shared_array(const void* tag, std::size_t bytes) { return active->shared_array(tag, bytes); }
void* dynamic_shared() { return active->dynamic_shared(); }
void fail(const char* problem) { active->fail(problem, {}); }

}  // namespace ingot::kernels::cuda::emulation
