#pragma once

#include <string_view>

#include "ingot/core/dtype.h"

namespace ingot::kernels::cuda {

/// What a GPU does at most, in FLOP/s, by NVIDIA's data sheets: dense matmuls of `dtype` summed in f32, on
/// the units that our matmuls use (for f32 the plain ones). 0 for a GPU, by its name, or a dtype that is
/// not known.
double dense_peak(std::string_view device_name, DType dtype);

}  // namespace ingot::kernels::cuda
