#pragma once

#include <string>
#include <string_view>

namespace ingot::kernels::cuda {

/// What status() tells of errors whose exceptions somebody caught. Any thread.
void note_error(int device, std::string_view text);
/// Of the device's last error; empty where there was none.
std::string last_error(int device);

}  // namespace ingot::kernels::cuda
