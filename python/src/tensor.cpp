#include "ingot/core/tensor.h"

#include <algorithm>

#include "bindings.h"

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/stream.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/random.h"

namespace ingot::python {

PyType_Slot* tensor_slots();

namespace {

void bind_dtypes(nb::module_& module) {
  auto type = nb::enum_<DType>(module, "dtype", "The type of a tensor's elements.");
  const std::pair<const char*, DType> all[] = {
      {"float32", DType::f32},   {"float64", DType::f64},        {"float16", DType::f16},
      {"bfloat16", DType::bf16}, {"float8_e4m3", DType::f8e4m3}, {"float8_e5m2", DType::f8e5m2},
      {"int64", DType::i64},     {"int32", DType::i32},          {"int16", DType::i16},
      {"int8", DType::i8},       {"uint8", DType::u8},           {"bool_", DType::boolean}};
  for (const auto& [name, value] : all) {
    type.value(name, value);
    module.attr(name) = value;
  }
}

nb::object element(const Tensor& x) {
  if (x.dtype() == DType::boolean) return nb::bool_(x.item() != 0);
  if (is_integer(x.dtype())) return nb::int_(to(x, DType::i64).to_vector<std::int64_t>()[0]);
  return nb::float_(x.item());
}

template <class T, class F>
nb::object nested(const T*& values, std::span<const std::int64_t> dims, const F& number) {
  if (dims.empty()) return number(*values++);
  nb::list list;
  for (std::int64_t i = 0; i < dims[0]; ++i) list.append(nested(values, dims.subspan(1), number));
  return list;
}

template <class T, class F>
nb::object as_lists(const Tensor& x, const F& number) {
  const std::vector<T> values = contiguous(x).to_vector<T>();
  const T* next = values.data();
  return nested(next, x.dims(), number);
}

nb::object to_list(const Tensor& x) {
  if (x.dtype() == DType::boolean) {
    return as_lists<std::uint8_t>(to(x, DType::u8),
                                  [](std::uint8_t value) -> nb::object { return nb::bool_(value != 0); });
  }
  if (is_integer(x.dtype())) {
    return as_lists<std::int64_t>(to(x, DType::i64),
                                  [](std::int64_t value) -> nb::object { return nb::int_(value); });
  }
  return as_lists<double>(to(x, DType::f64), [](double value) -> nb::object { return nb::float_(value); });
}

// The device that a call names, else the host.
Device device_or_cpu(const std::optional<std::string>& device) { return device ? to_device(*device) : kCpu; }

Tensor filled(const std::vector<std::int64_t>& shape, double value, nb::handle dtype,
              const std::optional<std::string>& device) {
  const Tensor x =
      Tensor::empty(Shape(shape), dtype.is_none() ? DType::f32 : to_dtype(dtype), device_or_cpu(device));
  fill_(x, value);
  return x;
}

Tensor random(const std::vector<std::int64_t>& shape, bool normal, nb::handle dtype,
              const std::optional<std::string>& device) {
  const Tensor x =
      Tensor::empty(Shape(shape), dtype.is_none() ? DType::f32 : to_dtype(dtype), device_or_cpu(device));
  if (normal) {
    normal_(x, 0, 1, next_random_key());
  } else {
    uniform_(x, 0, 1, next_random_key());
  }
  return x;
}

// start, start + step, ...: an allocator refuses what has no room before a value is written.
template <class T>
Tensor counted(T start, T step, std::int64_t count, DType dtype) {
  Tensor values = Tensor::empty(Shape({count}), dtype_of<T>);
  T* const out = values.template data<T>();
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {  // the caller knows that the last is in range
      out[i] = static_cast<T>(static_cast<std::uint64_t>(start) +
                              static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step));
    } else {
      out[i] = start + static_cast<T>(i) * step;
    }
  }
  return to(values, dtype);
}

void bind_creation(nb::module_& module) {
  module.def("full", filled, "shape"_a, "value"_a, "dtype"_a = nb::none(), "device"_a = nb::none(),
             "A tensor of ``shape`` that holds ``value`` everywhere; float32 unless ``dtype`` is given.");
  module.def("_random", random, "shape"_a, "normal"_a, "dtype"_a = nb::none(), "device"_a = nb::none());
  module.def(
      "manual_seed", [](std::uint64_t seed) { set_random_state({.seed = seed}); }, "seed"_a,
      "Seeds this thread's random numbers: the same seed gives the same bits, whatever the number of "
      "threads.");
  module.def(
      "_from_numbers",
      [](const std::vector<double>& values, const std::vector<std::int64_t>& shape, DType dtype) {
        return to(Tensor::from(values, Shape(shape)), dtype);
      },
      "values"_a, "shape"_a, "dtype"_a);
  module.def(
      "_from_integers",
      [](const std::vector<std::int64_t>& values, const std::vector<std::int64_t>& shape, DType dtype) {
        return to(Tensor::from(values, Shape(shape)), dtype);
      },
      "values"_a, "shape"_a, "dtype"_a);
  module.def("_count_numbers", counted<double>, "start"_a, "step"_a, "count"_a, "dtype"_a, ReleaseGil());
  module.def("_count_integers", counted<std::int64_t>, "start"_a, "step"_a, "count"_a, "dtype"_a,
             ReleaseGil());
}

// Also of a kind that a plugin added.
bool names_device(const std::string& text) {
  return std::ranges::any_of(device_types(),
                             [&](DeviceType type) { return text.substr(0, text.find(':')) == name(type); });
}

Tensor moved(const Tensor& x, const nb::args& args, const nb::kwargs& named) {
  Tensor result = x;
  const auto apply = [&result](nb::handle wish, bool device) {
    if (wish.is_none()) return;
    if (device) {
      result = to(result, to_device(nb::cast<std::string>(wish)));
    } else {
      result = to(result, to_dtype(wish));
    }
  };
  for (const nb::handle arg : args) {
    apply(arg, nb::isinstance<nb::str>(arg) && names_device(nb::cast<std::string>(arg)));
  }
  for (const auto& [key, value] : named) {
    const auto name = nb::cast<std::string>(key);
    if (name != "dtype" && name != "device")
      throw nb::type_error(("to() has no argument '" + name + "'").c_str());
    apply(value, name == "device");
  }
  return result;
}

// Until __exit__ says so, whenever Python frees the object.
struct HeldGradMode {
  explicit HeldGradMode(bool enabled) : mode(std::in_place, enabled) {}
  std::optional<GradMode> mode;
};

void bind_autograd(nb::module_& module, nb::class_<Tensor>& type) {
  type.def_prop_rw(
      "requires_grad", &Tensor::requires_grad, [](Tensor& x, bool value) { x.set_requires_grad(value); },
      "Whether operations on it are recorded; may be set on leaves of floating dtype.");
  type.def(
      "requires_grad_", [](Tensor& x, bool value) -> Tensor& { return x.set_requires_grad(value); },
      "value"_a = true, nb::rv_policy::reference,
      "Records operations on this leaf, or no more, and returns it. Floating dtypes only.");
  type.def_prop_ro("is_leaf", &Tensor::is_leaf, "Whether no recorded operation made it.");
  type.def_prop_rw(
      "grad",
      [](const Tensor& x) -> nb::object {
        const Tensor grad = x.grad();
        return grad.defined() ? nb::cast(grad) : nb::none();
      },
      [](const Tensor& x, const std::optional<Tensor>& grad) { x.set_grad(grad ? *grad : Tensor{}); },
      nb::for_setter(nb::arg("grad").none()),
      "The accumulated gradient of a leaf; None before the first backward pass.");
  type.def("detach", &Tensor::detach, "The same memory without a graph.");
  type.def(
      "backward",
      [](const Tensor& x, const std::optional<Tensor>& gradient, bool retain_graph) {
        const ReleasedGil release;
        backward(x, {.grad = gradient ? *gradient : Tensor{}, .retain_graph = retain_graph});
      },
      "gradient"_a = nb::none(), "retain_graph"_a = false,
      "Adds the gradient of this tensor to ``.grad`` of every leaf that it was computed from.");
  module.def("is_grad_enabled", grad_enabled, "Whether operations are recorded in this thread.");
  // A context manager needs to outlive a call, which C++'s guard does not: Python's no_grad keeps one of
  // these.
  nb::class_<HeldGradMode>(module, "_GradMode")
      .def(nb::init<bool>(), "enabled"_a)
      .def("_end", [](HeldGradMode& self) { self.mode.reset(); });
  module.def("set_detect_anomaly", set_detect_anomaly, "enabled"_a,
             "Whether every operation checks its outputs and gradients for NaN and infinities (slow).");
}

}  // namespace

nb::class_<Tensor> bind_tensor(nb::module_& module) {
  bind_dtypes(module);
  auto type = nb::class_<Tensor>(
      module, "Tensor", nb::type_slots(tensor_slots()),
      "An n-dimensional array: NumPy's indexing and broadcasting, PyTorch's autograd.\n\n"
      "Memory is shared without a copy with anything that speaks DLPack or the buffer "
      "protocol: ``numpy.asarray(x)``, ``torch.from_dlpack(x)``, ``ingot.from_dlpack(y)``.");
  type.def_prop_ro(
      "shape", [](const Tensor& x) { return nb::tuple(nb::cast(x.shape().to_vector())); },
      "Sizes of the axes, a tuple.");
  type.def_prop_ro("ndim", &Tensor::rank, "Number of axes.");
  type.def_prop_ro("dtype", &Tensor::dtype, "The type of the elements: ``ingot.float32``...");
  type.def_prop_ro(
      "device", [](const Tensor& x) { return to_string(x.device()); },
      "Where the memory is: ``\"cpu\"``, ``\"cuda:0\"``.");
  type.def_prop_ro("nbytes", &Tensor::nbytes, "Bytes of all elements.");
  type.def_prop_ro(
      "itemsize", [](const Tensor& x) { return byte_size(x.dtype()); }, "Bytes of one element.");
  type.def("numel", &Tensor::numel, "Number of elements.");
  type.def(
      "stride",
      [](const Tensor& x) {
        std::vector<std::int64_t> strides;
        for (int i = 0; i < x.rank(); ++i) strides.push_back(x.stride(i));
        return nb::tuple(nb::cast(strides));
      },
      "Elements, not bytes, from one index of each axis to the next.");
  type.def("is_contiguous", &Tensor::is_contiguous, "Whether it is row-major without gaps.");
  type.def(
      "data_ptr", [](const Tensor& x) { return reinterpret_cast<std::uintptr_t>(x.view().data); },
      "The address of the first element, on its device.");
  type.def("item", element, "The value of a tensor of one element, as a Python number.");
  type.def("tolist", to_list, "The values as nested lists.");
  type.def("__float__", &Tensor::item);
  type.def("__int__", [](const Tensor& x) { return nb::int_(element(x)); });
  type.def("__index__", [](const Tensor& x) {
    if (!is_integer(x.dtype()) || x.rank() != 0)
      throw nb::type_error("only a whole number without axes is an index");
    return nb::int_(element(x));
  });
  type.def("__bool__", [](const Tensor& x) { return x.item() != 0; });
  type.def("__len__", [](const Tensor& x) {
    if (x.rank() == 0) throw nb::type_error("len() of a tensor without axes");
    return x.dim(0);
  });
  type.def("__hash__", [](nb::handle self) { return reinterpret_cast<std::uintptr_t>(self.ptr()) >> 4; });
  type.def("to", moved,
           "With another dtype, on another device, or both: ``x.to('cuda')``, ``x.to(ingot.bfloat16)``.");
  type.def(
      "cpu", [](const Tensor& x) { return to(x, kCpu); }, ReleaseGil(),
      "A copy on the host; itself where it is there.");
  type.def("contiguous", contiguous, ReleaseGil(), "Row-major without gaps; itself where it is.");
  type.def("clone", clone, ReleaseGil(), "A copy in memory of its own.");
  type.def(
      "copy_", [](Tensor& x, const Tensor& from) -> Tensor& { return copy_(x, from), x; }, "source"_a,
      nb::rv_policy::reference, "Writes ``source`` (same shape) into this tensor's memory.");
  type.def(
      "fill_", [](Tensor& x, double value) -> Tensor& { return fill_(x, value), x; }, "value"_a,
      nb::rv_policy::reference, "Writes ``value`` everywhere; not recorded.");
  type.def(
      "zero_", [](Tensor& x) -> Tensor& { return zero_(x), x; }, nb::rv_policy::reference,
      "Writes zeros everywhere; not recorded.");
  module.def("_common_dtype", common_dtype, "a"_a, "b"_a);
  module.def("_other_devices", [] {
    std::vector<std::string> names;
    for (const ComputeBackend* one : BackendRegistry::instance().all())
      if (!one->device().is_cpu()) names.push_back(to_string(one->device()));
    return names;
  });
  bind_autograd(module, type);
  bind_tensor_index(type);
  bind_tensor_operators(type);
  bind_creation(module);
  module.def(
      "synchronize",
      [](const std::string& device) {
        const Device place = to_device(device);
        backend(place).synchronize(current_stream(place));
      },
      "device"_a = "cuda", ReleaseGil(), "Waits for all work on a device.");
  return type;
}

}  // namespace ingot::python
