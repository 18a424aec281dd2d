#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ingot/base/log.h"

/// Runs a grid on the calling thread. The threads of a block are fibers: each runs until it waits for others
/// (a barrier, a warp's exchange), then a random one of those that can go on does, and blocks come in a
/// scrambled order too. A missing barrier therefore reads poisoned or old values in most runs. What CUDA
/// leaves undefined is an error here: barriers that not all threads reach, exchanges between lanes that are
/// not in the mask or wait elsewhere.
namespace ingot::kernels::cuda::emulation {

struct Size3 {
  unsigned x = 1, y = 1, z = 1;
};

/// Where a thread stands; kernels see these through the names that CUDA gives them.
struct Position {
  Size3 thread{0, 0, 0}, block{0, 0, 0}, block_size, grid_size;
};
extern Position position;

/// Throws KernelError naming `kernel` for whatever the kernel did wrong. `body` is run by every thread.
void run_grid(const char* kernel, Size3 grid, Size3 block, std::size_t shared_bytes,
              const std::function<void()>& body);

/// While one is alive, grids are checked and not run: for those with more blocks than there is time for.
class ChecksOnly {
 public:
  ChecksOnly();
  ~ChecksOnly();
  ChecksOnly(const ChecksOnly&) = delete;
  ChecksOnly& operator=(const ChecksOnly&) = delete;
};

/// Chooses the order of threads and blocks of the grids to come.
void seed_order(std::uint64_t seed);

// What the threads of a block call.
void sync_threads(SourceLocation where);
/// Waits for the lanes of `mask`, and orders memory between them, which exchanges of values do not.
void sync_warp(unsigned mask, SourceLocation where);
/// Gives `value` to the other lanes of `mask` and returns that of lane `source`, once all of them have come.
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source, SourceLocation where);
/// The values of all lanes of `mask`, by lane; valid until the warp's next exchange.
const std::uint64_t* gather(unsigned mask, std::uint64_t value, SourceLocation where);
/// Calls `work` with the values of all 32 lanes, once they have come and before any of them goes on.
void collective(std::uint64_t value, void (*work)(const std::uint64_t* values), SourceLocation where);
/// A copy of this thread that happens at some moment until it waits for it (wait_copies): now, or when this
/// thread stops or goes on, or not before it waits.
void copy_async(void* to, const void* from, std::size_t bytes, std::size_t zeros, SourceLocation where);
/// Ends a group of copies.
void commit_copies();
/// Until at most `left` groups of this thread's are under way.
void wait_copies(std::size_t left);
unsigned lane();
/// Shared memory of this block for the declaration whose tag is at `tag`, poisoned; the same for all threads.
void* shared_array(const void* tag, std::size_t bytes);
void* dynamic_shared();
[[noreturn]] void fail(const char* problem);

}  // namespace ingot::kernels::cuda::emulation
