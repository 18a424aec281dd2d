#pragma once

namespace ingot {

/// From here on parallel loops that the calling thread begins run on it alone: for a thread that works beside
/// those that compute, whose processors it would take.
void keep_thread_serial();

/// Ends the threads that the calling thread's parallel loops have kept; its next loop starts new ones (50
/// µs). For a thread that leaves computing to others. OpenMP keeps threads for each one that ever ran a loop,
/// and where all of them together are more than the processors, none spins between loops any more.
void release_threads();

}  // namespace ingot
