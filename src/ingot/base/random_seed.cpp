#include "ingot/base/random_seed.h"

#include <atomic>
#include <cerrno>
#include <chrono>

#include <sys/random.h>
#include <unistd.h>

#include "ingot/base/rng.h"

namespace ingot {
namespace {

// Of a kernel that gives nothing (before 3.17, or forbidden by a sandbox): other numbers at least.
std::uint64_t seed_of_clock() noexcept {
  static std::atomic<std::uint64_t> count{0};
  const auto time = std::chrono::steady_clock::now().time_since_epoch().count();
  const auto words =
      RngKey{static_cast<std::uint64_t>(time), static_cast<std::uint64_t>(::getpid())}.block(++count);
  return (std::uint64_t{words[0]} << 32U) | words[1];
}

}  // namespace

std::uint64_t random_seed() noexcept {
  std::uint64_t seed = 0;
  ssize_t got = 0;
  do {
    got = ::getrandom(&seed, sizeof seed, 0);
  } while (got < 0 && errno == EINTR);
  return got == sizeof seed ? seed : seed_of_clock();
}

}  // namespace ingot
