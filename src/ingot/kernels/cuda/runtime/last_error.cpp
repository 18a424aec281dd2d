#include "ingot/kernels/cuda/runtime/last_error.h"

#include <map>
#include <mutex>

namespace ingot::kernels::cuda {
namespace {

struct Errors {
  std::mutex mutex;
  std::map<int, std::string> by_device;
};

Errors& errors() {
  static auto* kept = new Errors;  // never destroyed: devices fail at exit, too
  return *kept;
}

}  // namespace

void note_error(int device, std::string_view text) {
  const std::lock_guard lock(errors().mutex);
  errors().by_device[device] = text;
}

std::string last_error(int device) {
  const std::lock_guard lock(errors().mutex);
  const auto found = errors().by_device.find(device);
  return found == errors().by_device.end() ? std::string() : found->second;
}

}  // namespace ingot::kernels::cuda
