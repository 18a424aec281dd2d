#include "ingot/core/device.h"

#include <charconv>

#include "ingot/base/error.h"

namespace ingot {

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(static_cast<int>(device.index));
}

Device parse_device(std::string_view text) {
  if (text == "cpu") return kCpu;
  if (text == "cuda") return {DeviceType::cuda, 0};
  if (text.starts_with("cuda:")) {
    int index = -1;
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data() + 5, end, index);
    if (result.ec == std::errc{} && result.ptr == end && index >= 0 && index < 128) {
      return {DeviceType::cuda, static_cast<std::int8_t>(index)};
    }
  }
  throw InvalidConfig("device", "'" + std::string(text) + "' is not a device; use cpu, cuda or cuda:N");
}

}  // namespace ingot
