#pragma once

#include <functional>

#include "gil.h"
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "ingot/core/tensor.h"

/// The parts of ingot._core, a function for each file.
namespace ingot::python {

namespace nb = nanobind;
using namespace nb::literals;

void bind_errors(nb::module_& module);
nb::class_<Tensor> bind_tensor(nb::module_& module);
void bind_tensor_index(nb::class_<Tensor>& type);
void bind_tensor_operators(nb::class_<Tensor>& type);
void bind_buffers(nb::module_& module);
void bind_ops(nb::module_& module, nb::class_<Tensor>& type);
void bind_layer_ops(nb::module_& module);
void bind_sequence_ops(nb::module_& module);
void bind_optimizers(nb::module_& module);
void bind_weights(nb::module_& module);
void bind_language(nb::module_& module);
void bind_generation(nb::module_& module);
void bind_training(nb::module_& module);
void bind_tables(nb::module_& module);
void bind_forecast(nb::module_& module);
void bind_tune(nb::module_& module);
void bind_environments(nb::module_& module);
void bind_mahjong(nb::module_& module);
void bind_export(nb::module_& module);
void bind_config_keys(nb::module_& module);
void bind_plugins(nb::module_& module);

/// A dtype as people write one: ingot's own, a name, or what NumPy and PyTorch have. TypeError otherwise.
DType to_dtype(nb::handle dtype);
Device to_device(const std::string& device);
/// The wider of two dtypes of one kind (float16 and bfloat16: float32), or of a whole number's and uint8's
/// the one that holds both; nothing for kinds that differ.
std::optional<DType> common_dtype(DType a, DType b);
/// The sizes of a call such as `reshape(2, -1)` or `reshape((2, -1))`.
std::vector<std::int64_t> sizes_of(const nb::args& args);
/// A tensor of one element of `like`'s dtype and device, for `x + 1` where x holds whole numbers.
Tensor scalar_like(const Tensor& like, nb::handle value);

using OptionalTensor = std::optional<Tensor>;
inline Tensor or_undefined(const OptionalTensor& x) { return x ? *x : Tensor{}; }

/// Waits for `done(milliseconds)` to return true, without the GIL, in slices short enough for Ctrl-C:
/// KeyboardInterrupt leaves as any exception does, behind `interrupted()`.
void wait_interruptibly(const std::function<bool(int milliseconds)>& done,
                        const std::function<void()>& interrupted);

}  // namespace ingot::python
