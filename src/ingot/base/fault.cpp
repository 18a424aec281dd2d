#include "ingot/base/fault.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

struct Arranged {
  std::mutex mutex;
  std::optional<Fault> fault;
  std::atomic<bool> any{false};

  Arranged() {
    // Environment: INGOT_FAULT | for tests of Ingot: fails or ends the program at a named point
    if (const char* text = std::getenv("INGOT_FAULT"); text != nullptr && *text != '\0')
      set(parse_fault(text));
  }
  void set(std::optional<Fault> next) {
    const std::lock_guard lock(mutex);
    any = next.has_value();
    fault = std::move(next);
  }
};

Arranged& arranged() {
  static Arranged instance;
  return instance;
}

}  // namespace

Fault parse_fault(std::string_view text) {
  const std::size_t first = text.find(':'), last = text.rfind(':');
  Fault fault;
  bool good = first != std::string_view::npos && last != first;
  if (good) {
    const std::string_view kind = text.substr(0, first), count = text.substr(last + 1);
    fault.point = text.substr(first + 1, last - first - 1);
    fault.kind = kind == "crash"    ? Fault::Kind::crash
                 : kind == "stop"   ? Fault::Kind::stop
                 : kind == "hang"   ? Fault::Kind::hang
                 : kind == "error"  ? Fault::Kind::error
                 : kind == "memory" ? Fault::Kind::memory
                                    : Fault::Kind::no_space;
    const auto [end, failure] = std::from_chars(count.data(), count.data() + count.size(), fault.count);
    good = (kind == "crash" || kind == "stop" || kind == "hang" || kind == "error" || kind == "memory" ||
            kind == "no_space") &&
           !fault.point.empty() && failure == std::errc() && end == count.data() + count.size();
  }
  INGOT_CHECK(
      good,
      InvalidConfig(
          "INGOT_FAULT",
          fmt::format(
              "expected crash, stop, hang, error or memory:point:count, or no_space:write:count, got '{}'",
              text)));
  return fault;
}

ScopedFault::ScopedFault(Fault fault) { arranged().set(std::move(fault)); }
ScopedFault::~ScopedFault() { arranged().set(std::nullopt); }

void fault_point(std::string_view point) {
  Arranged& a = arranged();
  if (!a.any.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(a.mutex);
  if (!a.fault || a.fault->point != point || a.fault->kind == Fault::Kind::no_space) return;
  if (a.fault->count-- > 1) return;
  if (a.fault->kind == Fault::Kind::crash) fault_crash();
  const Fault::Kind kind = a.fault->kind;
  a.fault.reset();
  lock.unlock();  // other threads go on
  if (kind == Fault::Kind::error) throw Error(fmt::format("INGOT_FAULT: {} fails", point));
  if (kind == Fault::Kind::memory) throw std::bad_alloc();
  if (kind == Fault::Kind::stop) kill(getpid(), SIGSTOP);
  while (kind == Fault::Kind::hang) pause();
}

std::uint64_t fault_bytes_allowed(std::uint64_t bytes, Fault::Kind& then) {
  Arranged& a = arranged();
  if (!a.any.load(std::memory_order_relaxed)) return bytes;
  const std::lock_guard lock(a.mutex);
  if (!a.fault || a.fault->point != "write") return bytes;
  const std::uint64_t allowed = std::min(bytes, a.fault->count);
  if (allowed < bytes) then = a.fault->kind;
  a.fault->count -= allowed;
  return allowed;
}

void fault_crash() {
  kill(getpid(), SIGKILL);
  std::abort();  // not reached: SIGKILL cannot be caught
}

}  // namespace ingot
