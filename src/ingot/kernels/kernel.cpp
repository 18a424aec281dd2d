#include "ingot/kernels/kernel.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/meta_backend.h"

namespace ingot::kernels {
namespace {
thread_local int forced = -1;
}

ForceKind::ForceKind(ImplKind kind) : previous_(forced) { forced = static_cast<int>(kind); }
ForceKind::~ForceKind() { forced = previous_; }
int forced_kind() { return forced; }

void launch_without_implementation(const char* kernel, Stream stream, const LaunchWork& work, DType dtype) {
  const Device device = stream.device;
  if (device == kMeta) {
    if (scopes_watched()) const WatchedLaunch launch(kernel, "meta", stream, work);
    return;
  }
  throw KernelError(kernel,
                    fmt::format("no implementation on {} takes these arguments (dtype {}); convert to f32, "
                                "or check that initialize() was called",
                                to_string(device), name(dtype)));
}

}  // namespace ingot::kernels
