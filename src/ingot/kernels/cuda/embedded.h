#pragma once

#include <string_view>

/// Files of this folder as text, for kernels that are compiled at run time.
namespace ingot::cuda_text {

std::string_view functions();  ///< functions.h

}  // namespace ingot::cuda_text
