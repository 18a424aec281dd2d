#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"

// What graphs need beside the differentiable ops: functions that few models use, and whole numbers, in plain
// loops on the CPU, wherever their operands are.

namespace ingot::onnx {

/// The elements, row-major, converted: fp16, bf16 and smaller types gain, nothing else changes.
std::vector<double> as_doubles(const Tensor& x);
std::vector<std::int64_t> as_integers(const Tensor& x);
/// The other way: rounded as a cast does.
Tensor from_doubles(const std::vector<double>& values, const Shape& shape, DType dtype);
Tensor from_integers(const std::vector<std::int64_t>& values, const Shape& shape, DType dtype);

/// f(x) element by element, computed in f64.
Tensor map_values(const Tensor& x, FunctionRef<double(double)> f);
/// f(a, b) with broadcasting: floats in f64, whole numbers in i64. The result has a's dtype.
Tensor zip_values(const Tensor& a, const Tensor& b, FunctionRef<double(double, double)> f, const char* where);
Tensor zip_integers(const Tensor& a, const Tensor& b, FunctionRef<std::int64_t(std::int64_t, std::int64_t)> f,
                    const char* where);

/// A tensor of `shape` whose every element is copied from x: `source` maps the position in the result to the
/// row-major position in x, or to -1 for zero. Chosen elements, diagonals and the like are this with
/// different sources (whole rows in other positions are rearrange.h). The result is where x is.
Tensor copy_from(const Tensor& x, const Shape& shape,
                 FunctionRef<std::int64_t(std::span<const std::int64_t>)> source);

/// Row-major strides of a shape.
std::vector<std::int64_t> strides_of(const Shape& shape);
Shape to_shape(const std::vector<std::int64_t>& dims);

}  // namespace ingot::onnx
