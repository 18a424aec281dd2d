#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

enum class DeviceType : std::uint8_t { cpu, cuda };

/// Where memory lives and kernels run: "cpu", "cuda:0".
struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = 0;

  constexpr bool operator==(const Device&) const = default;
  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  constexpr bool is_cuda() const { return type == DeviceType::cuda; }
};

inline constexpr Device kCpu{};

std::string to_string(Device device);
/// "cpu", "cuda" (the first) or "cuda:N"; throws InvalidConfig otherwise.
Device parse_device(std::string_view text);

}  // namespace ingot
