#pragma once

namespace ingot {

/// From here on parallel loops that the calling thread begins run on it alone: for a thread that works beside
/// those that compute, whose processors it would take.
void keep_thread_serial();

}  // namespace ingot
