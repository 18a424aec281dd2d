#pragma once

#include <cstddef>

/// What ThreadSanitizer is told of emulated threads, which all run on one thread of the host: each is a
/// thread of its own to it, and what one did is known to another only where the CUDA programming guide says
/// so. It then reports accesses that nothing orders, however the emulator happened to order them. Without
/// ThreadSanitizer nothing here does anything.
namespace ingot::kernels::cuda::emulation {

#if defined(INGOT_CHECKS_RACES)

inline constexpr bool kChecksRaces = true;

/// A thread as ThreadSanitizer knows it.
using Racer = void*;
Racer make_racer();
Racer this_racer();

/// What happens while one is alive is another racer's work.
class As {
 public:
  explicit As(Racer racer);
  ~As();
  As(const As&) = delete;
  As& operator=(const As&) = delete;

 private:
  Racer before_;
};

/// What this racer does while one is alive is not looked at: the emulator's own work.
class Unseen {
 public:
  Unseen();
  ~Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// What this racer did until now is known to whoever learns from `point` later.
void tell(void* point);
void learn(void* point);
/// Accesses that nobody sees otherwise.
void reads(const void* from, std::size_t bytes);
void writes(void* to, std::size_t bytes);

#else

inline constexpr bool kChecksRaces = false;

struct Racer {};
inline Racer make_racer() { return {}; }
inline Racer this_racer() { return {}; }
struct As {
  explicit As(Racer) {}
  ~As() {}  // NOLINT(modernize-use-equals-default): else it would be an unused variable
};
struct Unseen {
  Unseen() {}   // NOLINT(modernize-use-equals-default)
  ~Unseen() {}  // NOLINT(modernize-use-equals-default)
};
inline void tell(void*) {}
inline void learn(void*) {}
inline void reads(const void*, std::size_t) {}
inline void writes(void*, std::size_t) {}

#endif

/// Where racers of a group meet round after round: what they did before is known to all afterwards. Rounds
/// take turns with two points, because one who comes to the next round early must not be heard by those who
/// are late.
class Meeting {
 public:
  void* point() { return &points_[round_ % 2]; }
  void end_round() { ++round_; }

 private:
  std::size_t points_[2] = {}, round_ = 0;  // only their addresses matter
};

}  // namespace ingot::kernels::cuda::emulation
