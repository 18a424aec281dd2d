#include "bindings.h"
#include <nanobind/stl/function.h>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"

namespace ingot::python {

DType to_dtype(nb::handle dtype) {
  if (nb::isinstance<DType>(dtype)) return nb::cast<DType>(dtype);
  if (nb::isinstance<nb::str>(dtype)) return parse_dtype(nb::cast<std::string>(dtype));
  if (dtype.is(nb::handle(reinterpret_cast<PyObject*>(&PyFloat_Type)))) return DType::f32;
  if (dtype.is(nb::handle(reinterpret_cast<PyObject*>(&PyLong_Type)))) return DType::i64;
  if (dtype.is(nb::handle(reinterpret_cast<PyObject*>(&PyBool_Type)))) return DType::boolean;
  // numpy.dtype has a name; numpy.float32 is a class of that name; str(torch.float32) is "torch.float32".
  if (nb::hasattr(dtype, "name")) return parse_dtype(nb::cast<std::string>(dtype.attr("name")));
  if (nb::hasattr(dtype, "__name__")) return parse_dtype(nb::cast<std::string>(dtype.attr("__name__")));
  return parse_dtype(nb::cast<std::string>(nb::str(dtype)));
}

std::optional<DType> common_dtype(DType a, DType b) {
  if (a == b) return a;
  const auto bits = [](DType dtype) { return byte_size(dtype); };
  if (is_floating_point(a) && is_floating_point(b)) {
    if (bits(a) == bits(b)) return bits(a) == 2 ? std::optional(DType::f32) : std::nullopt;
    return bits(a) > bits(b) ? a : b;
  }
  if (!is_integer(a) || !is_integer(b)) return std::nullopt;
  if (a != DType::u8 && b != DType::u8) return bits(a) > bits(b) ? a : b;
  const DType other = a == DType::u8 ? b : a;
  return other == DType::i8 ? DType::i16 : other;
}

Device to_device(const std::string& device) { return parse_device(device); }

std::vector<std::int64_t> sizes_of(const nb::args& args) {
  if (args.size() == 1 && (nb::isinstance<nb::tuple>(args[0]) || nb::isinstance<nb::list>(args[0]))) {
    return nb::cast<std::vector<std::int64_t>>(args[0]);
  }
  return nb::cast<std::vector<std::int64_t>>(nb::handle(args.ptr()));
}

Tensor scalar_like(const Tensor& like, nb::handle value) {
  if (is_integer(like.dtype()) || like.dtype() == DType::boolean) {
    if (nb::isinstance<nb::float_>(value)) {
      throw KernelError("scalar", "a whole-number tensor takes no float: convert it with .float() first");
    }
    const auto whole = nb::cast<std::int64_t>(value);
    return to(to(Tensor::from(std::vector<std::int64_t>{whole}, {}), like.dtype()), like.device());
  }
  return to(to(Tensor::from(std::vector<double>{nb::cast<double>(value)}, {}), like.dtype()), like.device());
}

void wait_interruptibly(const std::function<bool(int milliseconds)>& done,
                        const std::function<void()>& interrupted) {
  constexpr int kSlice = 50;
  for (;;) {
    bool ready = false;
    {
      const ReleasedGil release;
      ready = done(kSlice);
    }
    if (ready) return;
    if (PyErr_CheckSignals() != 0) {
      const ReleasedGil release;
      interrupted();
      break;
    }
  }
  throw nb::python_error();
}

}  // namespace ingot::python
