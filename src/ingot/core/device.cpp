#include "ingot/core/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <mutex>
#include <optional>

#include "ingot/base/error.h"

namespace ingot {
namespace {

// Names are only added, so that they are read without a lock.
struct DeviceTypes {
  std::array<std::string, kMostDeviceTypes> names{"cpu", "cuda", "meta"};
  std::atomic<std::size_t> count{3};
  std::mutex adding;
};

DeviceTypes& types() {
  // Never destroyed, as the backends are not.
  static auto* table = new DeviceTypes;
  return *table;
}

std::optional<DeviceType> find_type(std::string_view name) {
  const DeviceTypes& table = types();
  for (std::size_t i = 0; i < table.count; ++i)
    if (table.names[i] == name) return static_cast<DeviceType>(i);
  return std::nullopt;
}

bool may_be_a_name(std::string_view name) {
  return !name.empty() && name != "auto" && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// The number behind "cuda:"; nothing where it is none, or too large.
std::optional<std::int8_t> parse_index(std::string_view digits) {
  int index = -1;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, index);
  if (result.ec != std::errc{} || result.ptr != end || index < 0 || index > INT8_MAX) return std::nullopt;
  return static_cast<std::int8_t>(index);
}

}  // namespace

DeviceType register_device_type(std::string_view name) {
  INGOT_CHECK(
      may_be_a_name(name),
      InvalidConfig("device", "'" + std::string(name) +
                                  "' cannot name a kind of device: lower-case letters, digits and _"));
  DeviceTypes& table = types();
  const std::lock_guard lock(table.adding);
  INGOT_CHECK(!find_type(name).has_value(),
              InvalidConfig("device", "'" + std::string(name) + "' is there already"));
  const std::size_t place = table.count;
  INGOT_CHECK(place < kMostDeviceTypes,
              InvalidConfig("device", "'" + std::string(name) + "' is a kind too many: " +
                                          std::to_string(kMostDeviceTypes) + " are registered already"));
  table.names[place] = name;
  table.count = place + 1;
  return static_cast<DeviceType>(place);
}

std::string_view name(DeviceType type) { return types().names[static_cast<std::size_t>(type)]; }

std::vector<DeviceType> device_types() {
  std::vector<DeviceType> all;
  for (std::size_t i = 0; i < types().count; ++i) all.push_back(static_cast<DeviceType>(i));
  return all;
}

std::string to_string(Device device) {
  const std::string kind(name(device.type));
  return device.is_cpu() ? kind : kind + ":" + std::to_string(static_cast<int>(device.index));
}

Device parse_device(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (const auto type = find_type(text.substr(0, colon)); type.has_value()) {
    if (colon == std::string_view::npos) return {*type, 0};
    const auto index = parse_index(text.substr(colon + 1));
    if (index.has_value() && *type != DeviceType::cpu) return {*type, *index};
  }
  std::string known;
  for (const DeviceType type : device_types())
    if (type != DeviceType::cpu && type != DeviceType::meta)  // which is for plans
      known += ", " + std::string(name(type)) + ", " + std::string(name(type)) + ":N";
  throw InvalidConfig("device", "'" + std::string(text) + "' is not a device; use cpu" + known);
}

}  // namespace ingot
