#include <exception>
#include <map>

#include "bindings.h"
#include "held.h"

#include "ingot/base/error.h"
#include "ingot/data/csv.h"

namespace ingot::python {
namespace {

// What an error has beside its message, under the names of C++'s fields.
nb::dict fields_of(const Error& error) {
  nb::dict fields;
  fields["kind"] = std::string(error.kind());
  if (const auto* e = dynamic_cast<const InvalidConfig*>(&error)) fields["key"] = e->key;
  if (const auto* e = dynamic_cast<const ShapeMismatch*>(&error)) {
    fields["expected"] = nb::tuple(nb::cast(e->expected));
    fields["actual"] = nb::tuple(nb::cast(e->actual));
  }
  if (const auto* e = dynamic_cast<const DeviceNotAvailable*>(&error)) fields["device"] = e->device;
  if (const auto* e = dynamic_cast<const DeviceMismatch*>(&error)) {
    fields["expected"] = e->expected;
    fields["actual"] = e->actual;
  }
  if (const auto* e = dynamic_cast<const OutOfMemory*>(&error)) {
    fields["requested"] = e->requested;
    fields["in_use"] = e->in_use;
    fields["limit"] = e->limit;
  }
  if (const auto* e = dynamic_cast<const KernelError*>(&error)) fields["kernel"] = e->kernel;
  if (const auto* e = dynamic_cast<const NotImplemented*>(&error)) fields["feature"] = e->feature;
  if (const auto* e = dynamic_cast<const IoError*>(&error)) fields["path"] = e->path;
  if (const auto* e = dynamic_cast<const FormatError*>(&error)) {
    fields["path"] = e->path;
    fields["offset"] = e->offset;
    fields["field"] = e->field;
  }
  if (const auto* e = dynamic_cast<const data::DataError*>(&error)) {
    fields["path"] = e->path;
    fields["line"] = e->line;
    fields["column"] = e->column;
  }
  if (const auto* e = dynamic_cast<const NonFinite*>(&error)) fields["where"] = e->where;
  return fields;
}

void raise(const Error& error) {
  // ingot/errors.py has a class for each kind, with the built-in exceptions that it is one of.
  const nb::object make = nb::module_::import_("ingot.errors").attr("_make");
  const nb::object exception = make(std::string(error.kind()), std::string(error.what()), fields_of(error));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

}  // namespace

void bind_errors(nb::module_& /*module*/) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      try {
        raise(error);
      } catch (nb::python_error& other) {
        other.restore();
      }
    } catch (const HeldError& error) {
      try {
        error.raise();
      } catch (nb::python_error& own) {
        own.restore();
      }
    }
  });
}

}  // namespace ingot::python
