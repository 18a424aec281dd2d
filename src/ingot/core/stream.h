#pragma once

#include "ingot/core/device.h"

namespace ingot {

/// An ordered queue of work on one device. Work on a CPU stream is done when the call returns; on a GPU it
/// may still be running. `native` is the backend's own handle (a cudaStream_t), null for the default queue.
struct Stream {
  Device device{};
  void* native = nullptr;
};

/// The calling thread's current stream of a device; StreamGuard changes it.
Stream current_stream(Device device);

class StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream previous_;
};

}  // namespace ingot
