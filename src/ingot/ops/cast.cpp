#include "ingot/ops/cast.h"

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"
#include "ingot/kernels/copy.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

Tensor copied(const Tensor& x, DType dtype) {
  Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  kernels::launch(kernels::copy, current_stream(x.device()), {.x = x.view(), .y = y.view()});
  return y;
}

// All that `first` was given so far comes before what `second` is given from now on.
void put_in_order(Stream first, Stream second) {
  ComputeBackend& of_first = backend(first.device);
  const Event event = of_first.create_event();
  try {
    of_first.record(event, first);
    backend(second.device).wait(second, event);
  } catch (...) {
    of_first.destroy_event(event);
    throw;
  }
  of_first.destroy_event(event);
}

struct CopyNode final : Node {
  static constexpr const char* kName = "copy";
  std::string_view name() const override { return kName; }
  void backward(BackwardContext& ctx) override { ctx.pass(0, ctx.grad()); }
};

struct DeviceCopyNode final : Node {
  static constexpr const char* kName = "to_device";
  explicit DeviceCopyNode(Device from_) : from(from_) {}
  std::string_view name() const override { return kName; }
  void backward(BackwardContext& ctx) override { ctx.pass(0, to(ctx.grad(), from)); }
  Device from;
};

}  // namespace

Tensor to(const Tensor& x, DType dtype) {
  const OpScope op_scope("to", {&x});
  if (x.dtype() == dtype) return x;
  Tensor y = copied(x, dtype);
  return is_floating_point(dtype) ? record<CopyNode>(y, {&x}) : y;
}

Tensor to(const Tensor& x, Device device) {
  const OpScope op_scope("to", {&x});
  if (x.device() == device) return x;
  // Two kinds of accelerators cannot reach each other's memory.
  if (!has_host_memory(device) && !has_host_memory(x.device()) && device.type != x.device().type)
    return to(to(x, kCpu), device);
  const Tensor source = contiguous(x);
  Tensor y = Tensor::empty(source.shape(), source.dtype(), device);
  const Device worker =
      has_host_memory(device) ? x.device() : device;  // the accelerator's backend does the copy
  const Stream stream = current_stream(worker);
  const bool between_accelerators = !has_host_memory(device) && !has_host_memory(x.device());
  if (between_accelerators) put_in_order(current_stream(x.device()), stream);
  backend(worker).copy(y.view().data, source.view().data, source.nbytes(), stream);
  if (between_accelerators) {
    put_in_order(stream, current_stream(x.device()));  // which may give the source's memory away
  } else {
    backend(worker).synchronize(stream);
  }
  return record<DeviceCopyNode>(y, {&source}, source.device());
}

Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : clone(x); }

Tensor clone(const Tensor& x) {
  const OpScope op_scope("clone", {&x});
  return record<CopyNode>(copied(x, x.dtype()), {&x});
}

void copy_(const Tensor& y, const Tensor& x) {
  const OpScope op_scope("copy_", {&y, &x}, false);
  INGOT_CHECK(y.shape() == x.shape(), ShapeMismatch("copy_", y.shape().to_vector(), x.shape().to_vector()));
  INGOT_CHECK(!grad_enabled() || !y.requires_grad(),
              Error("copy_: the destination requires a gradient; change it under NoGrad"));
  kernels::launch(kernels::copy, current_stream(y.device()), {.x = x.view(), .y = y.view()});
  y.storage()->bump_version();
}

}  // namespace ingot
