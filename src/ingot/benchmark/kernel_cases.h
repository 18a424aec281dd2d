#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "ingot/core/stream.h"
#include "ingot/core/tensor.h"

namespace ingot::benchmark {

/// Makes what kernels are timed on: tensors of one device, whose main operand is `bytes` large; attention
/// spans `sequence` tokens.
class KernelOperands {
 public:
  static constexpr std::int64_t kWidth = 4096;  ///< of a row

  KernelOperands(Device device, DType dtype, std::int64_t bytes, std::int64_t sequence);

  Stream stream() const { return current_stream(device_); }
  Device device() const { return device_; }
  DType dtype() const { return dtype_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t elements() const { return rows_ * kWidth; }
  std::int64_t sequence() const { return sequence_; }

  Tensor values(const Shape& shape, DType dtype);
  Tensor values(const Shape& shape) { return values(shape, dtype_); }
  Tensor rows_of_values() { return values({rows_, kWidth}); }
  Tensor zeros(const Shape& shape, DType dtype) const { return Tensor::zeros(shape, dtype, device_); }
  Tensor result(const Shape& shape) const { return Tensor::empty(shape, dtype_, device_); }

 private:
  Device device_;
  DType dtype_;
  std::int64_t rows_, sequence_;
  std::uint64_t seed_ = 0;
};

/// A kernel with everything it needs. bytes: what has to move, each operand once. operations: counted where
/// they, and not memory, are the bound.
struct KernelWork {
  double bytes = 0, operations = 0;
  std::function<void()> run;
};

struct KernelCase {
  std::string name;
  KernelWork (*make)(KernelOperands&);
  bool slow_on_cpu = false;  ///< minutes there: only where it is asked for by name
};
/// What the elements of all take.
double bytes_of(std::initializer_list<Tensor> tensors);

/// Those of kernel_cases() that take rows (kernel_cases_rows.cpp).
std::vector<KernelCase> row_kernel_cases();
/// The kernels whose speed matters most; the first is a plain copy.
const std::vector<KernelCase>& kernel_cases();

}  // namespace ingot::benchmark
