#include "ingot/core/stream.h"

#include <vector>

namespace ingot {
namespace {

// A thread uses one or two devices, so a list searched from the front is the fastest map.
std::vector<Stream>& streams() {
  thread_local std::vector<Stream> list;
  return list;
}

Stream& slot(Device device) {
  for (Stream& stream : streams()) {
    if (stream.device == device) return stream;
  }
  return streams().emplace_back(Stream{device, nullptr});
}

}  // namespace

Stream current_stream(Device device) {
  if (device.is_cpu()) return {};  // CPU work has no queue
  return slot(device);
}

StreamGuard::StreamGuard(Stream stream) : previous_(current_stream(stream.device)) {
  slot(stream.device) = stream;
}
StreamGuard::~StreamGuard() { slot(previous_.device) = previous_; }

}  // namespace ingot
