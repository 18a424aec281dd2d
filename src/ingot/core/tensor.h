#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ingot/core/device.h"
#include "ingot/core/dtype.h"
#include "ingot/core/memory.h"
#include "ingot/core/shape.h"
#include "ingot/core/view.h"

namespace ingot {

class Tensor;
class ComputeBackend;

/// A block of memory that tensors share. Freed with the last of them.
class Storage {
 public:
  /// Owned memory from the device's backend, not initialized.
  Storage(std::size_t bytes, Device device);
  /// Memory of somebody else (a mapped file, a NumPy array); `release` runs when the storage dies.
  Storage(void* data, std::size_t bytes, Device device, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  /// Counts in-place writes; autograd compares it with what it saw when it saved a tensor.
  std::uint32_t version() const { return version_; }
  void bump_version() { ++version_; }
  /// For a copy that replaces `original`: what was saved of that one is not out of date.
  void continue_version(const Storage& original) { version_ = original.version_; }

 private:
  void* data_;
  std::size_t bytes_;
  ComputeBackend* backend_;  // null for foreign memory
  std::function<void()> release_;
  std::uint32_t version_ = 0;
  Device device_;
  MemoryTag tag_ = MemoryTag::other;
};

/// Base of backward nodes (autograd/node.h). Core only keeps them alive.
struct GradFn {
  virtual ~GradFn() = default;
};

/// What autograd knows of a tensor: whether gradients flow to it, and which node made it (none for a leaf).
struct AutogradMeta;

/// A handle on an n-dimensional array: shared memory, a view of it and, optionally, autograd data. Copying a
/// handle aliases; ops (ingot/ops) make new tensors. A default-constructed tensor is undefined.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<Storage> storage, const View& view) : storage_(std::move(storage)), view_(view) {}

  /// Contiguous and not initialized.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = kCpu);
  static Tensor empty_like(const Tensor& other) {
    return empty(other.shape(), other.dtype(), other.device());
  }
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = kCpu);
  /// Copies host values (row-major).
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape, Device device = kCpu) {
    return from_bytes(std::as_bytes(values), shape, dtype_of<T>, device);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = kCpu) {
    return from(std::span<const T>(values), shape, device);
  }
  static Tensor scalar(float value, Device device = kCpu) {
    return from(std::vector<float>{value}, {}, device);
  }
  static Tensor from_bytes(std::span<const std::byte> bytes, const Shape& shape, DType dtype,
                           Device device = kCpu);
  /// A contiguous tensor over foreign memory, without a copy; `release` runs when the last handle goes.
  static Tensor wrap(void* data, const Shape& shape, DType dtype, Device device,
                     std::function<void()> release);

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }
  Shape shape() const {
    return Shape(std::span<const std::int64_t>(view_.shape.data(), static_cast<std::size_t>(view_.rank)));
  }
  std::span<const std::int64_t> dims() const {
    return {view_.shape.data(), static_cast<std::size_t>(view_.rank)};
  }
  int rank() const { return view_.rank; }
  std::int64_t dim(int axis) const { return view_.dim(axis); }
  std::int64_t stride(int axis) const { return view_.stride(axis); }
  std::int64_t numel() const { return view_.numel(); }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * byte_size(dtype()); }
  DType dtype() const { return view_.dtype; }
  Device device() const { return view_.device; }
  bool is_contiguous() const { return view_.is_contiguous(); }
  const View& view() const { return view_; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }

  /// Elements of a CPU tensor; T must be the dtype's type.
  template <class T>
  T* data() const {
    check_data_access(dtype_of<T>);
    return view_.as<T>();
  }
  /// The elements on the host, row-major; the tensor must be contiguous and of T's dtype. Waits for the
  /// device.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> values(static_cast<std::size_t>(numel()));
    copy_to_host(std::as_writable_bytes(std::span<T>(values)), dtype_of<T>);
    return values;
  }
  /// The value of a tensor of one element, as a double. Waits for the device.
  double item() const;

  // Autograd (see autograd/autograd.h).
  bool requires_grad() const;
  /// Only for leaves of floating dtype.
  Tensor& set_requires_grad(bool value);
  bool is_leaf() const;
  /// The accumulated gradient of a leaf; undefined before the first backward pass.
  Tensor grad() const;
  /// Undefined: there is no gradient, and the next backward pass writes instead of accumulating. A gradient
  /// whose memory is fixed (GradBuffer) keeps it; only that memory can be set then.
  void set_grad(Tensor grad) const;
  /// The same memory without autograd data.
  Tensor detach() const { return {storage_, view_}; }

  const std::shared_ptr<AutogradMeta>& autograd_meta() const { return meta_; }
  void set_autograd_meta(std::shared_ptr<AutogradMeta> meta) { meta_ = std::move(meta); }

 private:
  void check_data_access(DType wanted) const;
  void copy_to_host(std::span<std::byte> to, DType wanted) const;

  std::shared_ptr<Storage> storage_;
  View view_;
  std::shared_ptr<AutogradMeta> meta_;
};

/// The memory of a leaf's gradient, and whether a gradient is in it.
struct GradBuffer {
  Tensor memory;         ///< undefined: the backward pass allocates it
  bool written = false;  ///< false: what the memory holds means nothing, the next gradient overwrites it
  bool fixed =
      false;  ///< the memory belongs to somebody (GradBuckets) and stays when the gradient is dropped

  /// The gradient; undefined where there is none.
  Tensor gradient() const { return written ? memory : Tensor{}; }
};

struct AutogradMeta {
  bool requires_grad = false;
  std::uint32_t output_index = 0;   // which output of grad_fn this tensor is
  std::shared_ptr<GradFn> grad_fn;  // null for a leaf
  // Leaves only.
  GradBuffer grad;
  std::function<void()> gradient_ready;  // see on_gradient_ready (autograd/engine.h)
  std::function<Tensor()> values;        // see save_by_identity (autograd/node.h)
};

/// A contiguous view's strides from its shape.
View contiguous_view(void* data, const Shape& shape, DType dtype, Device device);

}  // namespace ingot
