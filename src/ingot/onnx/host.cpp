#include "ingot/onnx/host.h"

#include <cstring>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::onnx {

std::vector<double> as_doubles(const Tensor& x) {
  return contiguous(to(to(x, kCpu), DType::f64)).to_vector<double>();
}
std::vector<std::int64_t> as_integers(const Tensor& x) {
  return contiguous(to(to(x, kCpu), DType::i64)).to_vector<std::int64_t>();
}
Tensor from_doubles(const std::vector<double>& values, const Shape& shape, DType dtype) {
  return to(Tensor::from(values, shape), dtype);
}
Tensor from_integers(const std::vector<std::int64_t>& values, const Shape& shape, DType dtype) {
  return to(Tensor::from(values, shape), dtype);
}

Tensor map_values(const Tensor& x, FunctionRef<double(double)> f) {
  if (x.dtype() == DType::f32) {  // no copies as f64
    const Tensor from = contiguous(to(x, kCpu));
    Tensor result = Tensor::empty_like(from);
    parallel_for(x.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        result.data<float>()[i] = static_cast<float>(f(static_cast<double>(from.data<float>()[i])));
    });
    return result;
  }
  std::vector<double> values = as_doubles(x);
  parallel_for(static_cast<std::int64_t>(values.size()), 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      values[static_cast<std::size_t>(i)] = f(values[static_cast<std::size_t>(i)]);
  });
  return from_doubles(values, x.shape(), x.dtype());
}

namespace {

template <class T>
std::vector<T> zip(std::vector<T> a, const std::vector<T>& b, FunctionRef<T(T, T)> f) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = f(a[i], b[i]);
  return a;
}

}  // namespace

Tensor zip_values(const Tensor& a, const Tensor& b, FunctionRef<double(double, double)> f,
                  const char* where) {
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), where);
  if (a.dtype() == DType::f32 && b.dtype() == DType::f32) {  // no copies as f64
    const auto spread = [&](const Tensor& t) { return contiguous(broadcast_to(to(t, kCpu), shape)); };
    const Tensor left = spread(a), right = spread(b);
    Tensor result = Tensor::empty(shape, DType::f32);
    for (std::int64_t i = 0; i < shape.numel(); ++i)
      result.data<float>()[i] = static_cast<float>(
          f(static_cast<double>(left.data<float>()[i]), static_cast<double>(right.data<float>()[i])));
    return result;
  }
  return from_doubles(zip<double>(as_doubles(broadcast_to(a, shape)), as_doubles(broadcast_to(b, shape)), f),
                      shape, a.dtype());
}

Tensor zip_integers(const Tensor& a, const Tensor& b, FunctionRef<std::int64_t(std::int64_t, std::int64_t)> f,
                    const char* where) {
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), where);
  return from_integers(
      zip<std::int64_t>(as_integers(broadcast_to(a, shape)), as_integers(broadcast_to(b, shape)), f), shape,
      a.dtype());
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = strides[static_cast<std::size_t>(i) + 1] * shape[i + 1];
  }
  return strides;
}

Shape to_shape(const std::vector<std::int64_t>& dims) {
  INGOT_CHECK(dims.size() <= kMaxRank,
              NotImplemented("a tensor of more than " + std::to_string(kMaxRank) + " axes"));
  for (const std::int64_t size : dims)
    INGOT_CHECK(size >= 0, DimensionMismatch("a size is negative: " + to_string(dims)));
  return Shape{std::span<const std::int64_t>(dims)};
}

Tensor copy_from(const Tensor& x, const Shape& shape,
                 FunctionRef<std::int64_t(std::span<const std::int64_t>)> source) {
  const Tensor from = contiguous(to(x, kCpu));
  Tensor result = Tensor::zeros(shape, x.dtype());
  const std::size_t size = byte_size(x.dtype());
  const auto* in = static_cast<const std::byte*>(from.view().data);
  auto* out = static_cast<std::byte*>(result.view().data);
  std::vector<std::int64_t> position(static_cast<std::size_t>(shape.rank()), 0);
  for (std::int64_t i = 0; i < shape.numel(); ++i, out += size) {
    const std::int64_t at = source(position);
    INGOT_ASSERT(at < x.numel());
    if (at >= 0) std::memcpy(out, in + static_cast<std::size_t>(at) * size, size);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (++position[static_cast<std::size_t>(axis)] < shape[axis]) break;
      position[static_cast<std::size_t>(axis)] = 0;
    }
  }
  return to(result, x.device());
}

}  // namespace ingot::onnx
