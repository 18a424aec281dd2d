#pragma once

namespace ingot::dist {

// How a thread waits in an operation, whichever engine it is of.
inline constexpr double kSpinSeconds = 50e-6;  ///< for which a waiting thread keeps its processor
inline constexpr unsigned kSleep = 20;         ///< microseconds, from then on
inline constexpr double kLookSeconds = 0.2;    ///< after which it looks whether another rank has given up

}  // namespace ingot::dist
