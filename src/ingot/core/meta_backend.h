#pragma once

#include "ingot/core/backend.h"

namespace ingot {

/// The meta device: tensors with shapes, dtypes and addresses, and no values. It exists while a DryRun
/// (kernels/dry_run.h) lives, as the device that this one imitates; its memory takes none of the machine's.
inline constexpr Device kMeta{DeviceType::meta};

/// Puts the meta device into the registry, as one that can do what `like` says, but holds no values that the
/// host may read; nullptr takes it out. Memory that is still allocated stays counted.
void set_meta_backend(const BackendCapabilities* like);
/// Null where set_meta_backend() has not put one there.
ComputeBackend* meta_backend();

}  // namespace ingot
