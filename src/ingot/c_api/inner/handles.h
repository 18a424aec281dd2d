#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "ingot/c_api/inner/call.h"

namespace ingot::c_api {

/// What a handle stands for. The opaque structs of the C API derive from it, and have a `kName` for messages.
struct Object {
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  std::atomic<bool> in_use = false;
};

// A handle is a number that is never given out again, not an address: a closed one, or one that never was, is
// found out without reading memory that may be somebody else's by now.
void* add_object(std::shared_ptr<Object> object);
/// Null where the handle is not open.
std::shared_ptr<Object> find_object(const void* handle);
/// Removes it; null where the handle is not open.
std::shared_ptr<Object> remove_object(const void* handle);
std::int64_t open_objects();

template <class T>
T* open_handle(std::shared_ptr<T> object) {
  return static_cast<T*>(add_object(std::move(object)));
}

[[noreturn]] void throw_invalid_handle(const void* handle, const char* wanted);

/// The object of a handle, for calls that any thread may make. Throws InvalidHandle.
template <class T>
std::shared_ptr<T> object_of(const T* handle) {
  auto object = std::dynamic_pointer_cast<T>(find_object(handle));
  if (object == nullptr) throw_invalid_handle(handle, T::kName);
  return object;
}

/// The object of a handle that takes one thread at a time. Throws InvalidHandle, Busy.
template <class T>
class Use {
 public:
  explicit Use(const T* handle) : Use(object_of(handle)) {}
  explicit Use(std::shared_ptr<T> object) : object_(std::move(object)) {
    if (object_->in_use.exchange(true, std::memory_order_acquire))
      throw Busy(
          "this " + std::string(T::kName) +
          " is in use by another call; it takes one at a time: wait for that call, or open another one");
  }
  ~Use() { object_->in_use.store(false, std::memory_order_release); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  T& operator*() const { return *object_; }
  T* operator->() const { return object_.get(); }
  const std::shared_ptr<T>& shared() const { return object_; }

 private:
  std::shared_ptr<T> object_;
};

/// Closes a handle; NULL is allowed. What a running call holds lives until that ends.
template <class T>
void close_handle(T* handle) {
  if (handle == nullptr) return;
  object_of<T>(handle);
  remove_object(handle);
}

}  // namespace ingot::c_api
