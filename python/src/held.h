#pragma once

#include <exception>
#include <memory>

#include "bindings.h"

namespace ingot::python {

/// A Python object that C++ threads use and drop, with or without the GIL, whatever has become of the
/// interpreter.
class Held {
 public:
  explicit Held(nb::object object) : object_(std::move(object)) {}
  ~Held() {
    if (Py_IsInitialized() == 0) {
      object_.release();  // the interpreter is gone
      return;
    }
    const AcquiredGil acquire;
    object_.reset();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  /// With the GIL.
  nb::handle get() const { return object_; }

 private:
  nb::object object_;
};

/// An exception of Python on its way through threads of C++.
class HeldError : public std::exception {
 public:
  /// With the GIL.
  explicit HeldError(const nb::python_error& error)
      : value_(std::make_shared<Held>(nb::borrow(error.value()))) {}
  const char* what() const noexcept override { return "an exception of Python"; }
  /// Throws it where Python can catch it. With the GIL.
  [[noreturn]] void raise() const {
    const nb::handle value = value_->get();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())), value.ptr());
    throw nb::python_error();
  }

 private:
  std::shared_ptr<Held> value_;
};

}  // namespace ingot::python
