#pragma once

#include <string_view>

/// Headers of this backend as text, for kernels that are compiled at run time.
namespace ingot::cuda_text {

std::string_view approximate();  ///< hardware/approximate.h
std::string_view functions();    ///< device/functions.h

}  // namespace ingot::cuda_text
