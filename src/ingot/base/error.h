#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

/// Base of every error that Ingot throws. A message says what was found, what was expected and what to do;
/// the derived types have the same facts as fields, for programs.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// Stable machine-readable name, e.g. "shape_mismatch".
  virtual std::string_view kind() const noexcept { return "error"; }
};

/// A setting that cannot be used. `key` is its dotted path ("optimizer.learning_rate").
class InvalidConfig : public Error {
 public:
  InvalidConfig(std::string key, const std::string& problem);
  std::string_view kind() const noexcept override { return "invalid_config"; }
  std::string key;
};

/// Two shapes that had to agree do not. `where` is the operation or the tensor's name.
class ShapeMismatch : public Error {
 public:
  ShapeMismatch(std::string_view where, std::vector<std::int64_t> expected, std::vector<std::int64_t> actual,
                std::string_view advice = {});
  std::string_view kind() const noexcept override { return "shape_mismatch"; }
  std::vector<std::int64_t> expected, actual;
};

/// A rank, axis or size that an operation cannot take.
class DimensionMismatch : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "dimension_mismatch"; }
};

class DeviceNotAvailable : public Error {
 public:
  DeviceNotAvailable(std::string device, std::string_view reason);
  std::string_view kind() const noexcept override { return "device_not_available"; }
  std::string device;
};

/// Tensors of one operation live on different devices.
class DeviceMismatch : public Error {
 public:
  DeviceMismatch(std::string_view where, std::string expected, std::string actual);
  std::string_view kind() const noexcept override { return "device_mismatch"; }
  std::string expected, actual;
};

/// Sizes are in bytes; `limit` is 0 where none was set.
class OutOfMemory : public Error {
 public:
  OutOfMemory(std::string_view where, std::size_t requested, std::size_t in_use, std::size_t limit);
  std::string_view kind() const noexcept override { return "out_of_memory"; }
  std::size_t requested, in_use, limit;
};

class KernelError : public Error {
 public:
  KernelError(std::string kernel, std::string_view problem);
  std::string_view kind() const noexcept override { return "kernel_error"; }
  std::string kernel;
};

class NotImplemented : public Error {
 public:
  explicit NotImplemented(std::string feature);
  std::string_view kind() const noexcept override { return "not_implemented"; }
  std::string feature;
};

/// Reading or writing failed. `path` is the file, directory or address.
class IoError : public Error {
 public:
  IoError(std::string path, std::string_view problem);
  std::string_view kind() const noexcept override { return "io_error"; }
  std::string path;
};

/// A file's content is not what its format allows. `offset` is in bytes from the start (-1: not known),
/// `field` the format's own name for what was being read.
class FormatError : public Error {
 public:
  FormatError(std::string path, std::int64_t offset, std::string field, std::string_view problem);
  std::string_view kind() const noexcept override { return "format_error"; }
  std::string path;
  std::int64_t offset;
  std::string field;
};

/// A computation made a NaN or an infinity where none may be. `where` names the operation, tensor or step.
class NonFinite : public Error {
 public:
  NonFinite(std::string where, std::string_view problem);
  std::string_view kind() const noexcept override { return "non_finite"; }
  std::string where;
};

/// "[2, 3]"
std::string to_string(const std::vector<std::int64_t>& dims);

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace ingot

/// Throws `exception` (built only then) unless `condition` holds. For what a user can get wrong.
#define INGOT_CHECK(condition, ...) \
  do {                              \
    if (!(condition)) [[unlikely]]  \
      throw __VA_ARGS__;            \
  } while (false)

/// For what only a programmer of Ingot can get wrong: prints the location and aborts.
#define INGOT_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::ingot::assertion_failed(#condition, __FILE__, __LINE__))
