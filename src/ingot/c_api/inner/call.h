#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/c_api/error.h"

/// What all functions of the C API are made of.
namespace ingot::c_api {

/// An argument that no call takes: null, or out of range.
class InvalidArgument : public Error {
 public:
  InvalidArgument(std::string argument, std::string_view problem);
  std::string_view kind() const noexcept override { return "invalid_argument"; }
  std::string argument;
};

class InvalidHandle : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "invalid_handle"; }
};

class Busy : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "busy"; }
};

/// Runs the body of a function of the C API. What it throws becomes a status and ingot_last_error().
IngotStatus call(const char* function, FunctionRef<void()> body) noexcept;

/// Throws InvalidArgument for null.
template <class T>
T& required(T* pointer, const char* argument) {
  if (pointer == nullptr) throw InvalidArgument(argument, "is NULL");
  return *pointer;
}

/// A result of a call, NULL or 0 until the call succeeds.
template <class T>
T& result(T* out, const char* argument) {
  required(out, argument) = T{};
  return *out;
}

/// A string that has to be there.
std::string string_arg(const char* argument, const char* name);
/// NULL is an empty string.
std::string string_or_empty(const char* argument);

/// Elements of a caller's array; NULL is allowed where there are none.
template <class T>
std::span<const T> array_arg(const T* data, std::size_t count, const char* argument) {
  if (count > 0) required(data, argument);
  return {data, count};
}

/// `values` where ingot_free() frees them; never null.
char* give_text(std::string_view value);
void* give_bytes(const void* data, std::size_t bytes);

/// The options of a caller that may know fewer fields, or more, than this library: the fields that both know,
/// over the defaults. NULL: the defaults.
template <class T>
T options_or(const T* given, T defaults = {}) {
  if (given == nullptr) return defaults;
  if (given->size < sizeof(std::size_t))
    throw InvalidArgument("options", "its size is not set; fill it with its ..._options() call first");
  std::memcpy(&defaults, given, given->size < sizeof(T) ? given->size : sizeof(T));
  return defaults;
}

/// Fills a struct of a caller that may know fewer fields than this library, or more, which become 0.
template <class T>
void fill(T* out, std::size_t size, const T& values, const char* argument) {
  required(out, argument);
  std::memset(static_cast<void*>(out), 0, size);
  std::memcpy(static_cast<void*>(out), &values, size < sizeof(T) ? size : sizeof(T));
}

/// Defaults of options, with the size that the caller knows.
template <class T>
void fill_options(T* out, std::size_t size, T defaults = {}) {
  if (size < sizeof(std::size_t)) throw InvalidArgument("size", "give sizeof of the struct");
  defaults.size = size;
  fill(out, size, defaults, "options");
}

}  // namespace ingot::c_api
