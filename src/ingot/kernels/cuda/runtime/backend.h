#pragma once

#include <memory>

#include "ingot/core/backend.h"
#include "ingot/kernels/cuda/runtime/allocator.h"

namespace ingot::kernels::cuda {

/// The services of CUDA device `index`. `caching` as in CachingAllocator::Options.
std::unique_ptr<ComputeBackend> make_cuda_backend(int index, CachingAllocator::Options options = {});

}  // namespace ingot::kernels::cuda
