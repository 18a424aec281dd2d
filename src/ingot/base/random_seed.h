#pragma once

#include <cstdint>

namespace ingot {

/// A number that nobody can foresee, from the kernel; another one each time. Never throws and never waits:
/// the processor's own source, which std::random_device asks, may have nothing to give where many ask it at
/// once, and that throws.
std::uint64_t random_seed() noexcept;

}  // namespace ingot
