#include "ingot/base/error.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/printable.h"

namespace ingot {

std::string to_string(const std::vector<std::int64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

InvalidConfig::InvalidConfig(std::string key_, const std::string& problem)
    : Error(fmt::format("invalid configuration: {}: {}", printable(key_), problem)), key(std::move(key_)) {}

ShapeMismatch::ShapeMismatch(std::string_view where, std::vector<std::int64_t> expected_,
                             std::vector<std::int64_t> actual_, std::string_view advice)
    : Error(fmt::format("{}: shape mismatch: expected {}, got {}{}{}", printable(where), to_string(expected_),
                        to_string(actual_), advice.empty() ? "" : "; ", advice)),
      expected(std::move(expected_)),
      actual(std::move(actual_)) {}

DeviceNotAvailable::DeviceNotAvailable(std::string device_, std::string_view reason)
    : Error(fmt::format("device not available: {}: {}", printable(device_), reason)),
      device(std::move(device_)) {}

DeviceMismatch::DeviceMismatch(std::string_view where, std::string expected_, std::string actual_)
    : Error(fmt::format("{}: device mismatch: one tensor is on {}, another on {}; move one with to(device)",
                        where, expected_, actual_)),
      expected(std::move(expected_)),
      actual(std::move(actual_)) {}

OutOfMemory::OutOfMemory(std::string_view where, std::size_t requested_, std::size_t in_use_,
                         std::size_t limit_)
    : Error(limit_ == 0
                ? fmt::format("out of memory: {}: {} bytes were asked for with {} in use", where, requested_,
                              in_use_)
                : fmt::format(
                      "out of memory: {}: allocation of {} bytes would exceed the limit of {} bytes (in "
                      "use: {} bytes)",
                      where, requested_, limit_, in_use_)),
      requested(requested_),
      in_use(in_use_),
      limit(limit_) {}

KernelError::KernelError(std::string kernel_, std::string_view problem)
    : Error(fmt::format("kernel error: {}: {}", printable(kernel_), problem)), kernel(std::move(kernel_)) {}

NotImplemented::NotImplemented(std::string feature_)
    : Error(fmt::format("not implemented: {}", feature_)), feature(std::move(feature_)) {}

IoError::IoError(std::string path_, std::string_view problem)
    : Error(fmt::format("{}: {}", printable(path_), problem)), path(std::move(path_)) {}

FormatError::FormatError(std::string path_, std::int64_t offset_, std::string field_,
                         std::string_view problem)
    : Error(offset_ < 0 ? fmt::format("{}: {}: {}", printable(path_), printable(field_), problem)
                        : fmt::format("{}: at byte {}: {}: {}", printable(path_), offset_, printable(field_),
                                      problem)),
      path(std::move(path_)),
      offset(offset_),
      field(std::move(field_)) {}

NonFinite::NonFinite(std::string where_, std::string_view problem)
    : Error(fmt::format("{}: {}", printable(where_), problem)), where(std::move(where_)) {}

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace ingot
