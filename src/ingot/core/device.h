#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

/// A kind of device, by its index in this process' table of kinds. The CPU, CUDA and meta (shapes without
/// values: core/meta_backend.h) are there from the start; a backend of another kind adds its own with
/// register_device_type().
enum class DeviceType : std::uint8_t { cpu, cuda, meta };

/// The size of the table of kinds.
inline constexpr std::size_t kMostDeviceTypes = 8;

/// Adds a kind by the name that settings use: of "toy" devices are "toy" and "toy:1". Throws InvalidConfig
/// for a name that is taken, or is not lower-case letters, digits and '_', or where the table is full.
DeviceType register_device_type(std::string_view name);
/// "cpu", "cuda", "meta", or what a backend registered.
std::string_view name(DeviceType type);
/// All kinds that this process knows, whether or not it has such a device.
std::vector<DeviceType> device_types();

/// Where memory lives and kernels run: "cpu", "cuda:0".
struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = 0;

  constexpr auto operator<=>(const Device&) const = default;
  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  constexpr bool is_cuda() const { return type == DeviceType::cuda; }
};

inline constexpr Device kCpu{};

std::string to_string(Device device);
/// "cpu", "cuda" (the first), "cuda:N", or the same with the name of another kind; throws InvalidConfig
/// otherwise.
Device parse_device(std::string_view text);

}  // namespace ingot
