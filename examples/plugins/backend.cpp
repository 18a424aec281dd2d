// A backend: a second "device" over the host's memory, whose kernels are those of the CPU. It shows what a
// backend needs, and proves that nothing else of Ingot knows which devices there are.
//
//     ingot train train.yaml --set device=toy --plugin backend.so
#include "ingot/core/backend.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "ingot/base/error.h"
#include "ingot/kernels/attention.h"
#include "ingot/kernels/check.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/index.h"
#include "ingot/kernels/loss.h"
#include "ingot/kernels/norm.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/kernels/reduce.h"
#include "ingot/kernels/rope.h"
#include "ingot/kernels/softmax.h"
#include "ingot/plugin/plugin.h"

namespace {

using namespace ingot;

constexpr std::size_t kMemory = std::size_t{256} << 20;

// Services: memory, copies, and an order of work, which is that of the calls here.
class ToyBackend final : public ComputeBackend {
 public:
  explicit ToyBackend(Device device) : device_(device), tracker_(kMemory) {
    capabilities_.device_name = "toy device over host memory";
    capabilities_.dtypes = {DType::f32};
    capabilities_.total_memory = kMemory;
    capabilities_.compute_units = num_threads();
    capabilities_.attention = {"window", "documents", "softcap"};
  }

  Device device() const override { return device_; }
  std::string_view name() const override { return "toy"; }
  std::string version() const override { return "1"; }
  const BackendCapabilities& capabilities() const override { return capabilities_; }
  BackendStatus status() const override {
    return {shut_down_ ? BackendState::shut_down : BackendState::ready, last_error_};
  }
  void shutdown() override { shut_down_ = true; }

  void* allocate(std::size_t bytes, MemoryTag tag) override {
    try {
      tracker_.allocate(bytes, tag, to_string(device_));
    } catch (const OutOfMemory& error) {
      last_error_ = error.what();
      throw;
    }
    return ::operator new(bytes, kAlignment);
  }
  void deallocate(void* data, std::size_t bytes, MemoryTag tag) noexcept override {
    ::operator delete(data, kAlignment);
    tracker_.deallocate(bytes, tag);
  }
  void* allocate_host(std::size_t bytes) override { return ::operator new(bytes, kAlignment); }
  void deallocate_host(void* data, std::size_t) noexcept override { ::operator delete(data, kAlignment); }
  void trim() override {}
  MemoryInfo memory_info() const override { return {kMemory - tracker_.allocated(), kMemory}; }
  MemoryTracker& memory() override { return tracker_; }

  void copy(void* to, const void* from, std::size_t bytes, Stream) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void fill_bytes(void* to, std::uint8_t value, std::size_t bytes, Stream) override {
    if (bytes > 0) std::memset(to, value, bytes);
  }

  // All work is done when a call returns: there is one queue, and nothing to wait for.
  Stream create_stream() override { return {device_, nullptr}; }
  void destroy_stream(Stream) noexcept override {}
  void synchronize(Stream) override {}
  Event create_event() override { return {device_, nullptr}; }
  void destroy_event(Event) noexcept override {}
  void record(Event, Stream) override {}
  void wait(Stream, Event) override {}
  void synchronize(Event) override {}

 private:
  static constexpr std::align_val_t kAlignment{64};

  Device device_;
  BackendCapabilities capabilities_;
  MemoryTracker tracker_;
  std::string last_error_;
  bool shut_down_ = false;
};

// Kernels: here what the CPU has, which reads this device's memory as well. A backend of its own adds its
// own.
template <class... Args>
void take_from_cpu(DeviceType type, kernels::Kernel<Args>&... kernel) {
  const auto take = [type](auto& each) {
    for (const auto& implementation : each.implementations(DeviceType::cpu)) each.add(type, implementation);
  };
  (take(kernel), ...);
}

// What training a language model launches.
void add_kernels(DeviceType type) {
  using namespace ingot::kernels;
  take_from_cpu(type, copy, fill, count_nonfinite);
  take_from_cpu(type, unary, unary_backward, binary, binary_backward, compare, where, dropout,
                kernels::random);
  take_from_cpu(type, gemm, gemm_each, gemm_silu_mul, gemm_gelu, gemm_gelu_backward, column_sum);
  take_from_cpu(type, linear_parameters_backward, silu_mul, silu_mul_backward);
  take_from_cpu(type, embedding, embedding_backward, find_outside, gather, scatter_add);
  take_from_cpu(type, rms_norm, rms_norm_backward, layer_norm, layer_norm_backward);
  take_from_cpu(type, rope, rms_norm_rope, rms_norm_rope_backward, attention, attention_backward);
  take_from_cpu(type, reduce, softmax, softmax_backward, logsumexp, logsumexp_backward);
  take_from_cpu(type, count_targets, cross_entropy, cross_entropy_backward, total, scale_by);
  take_from_cpu(type, adamw, sgd, global_norm, scale_all, lerp_all);
}

}  // namespace

INGOT_PLUGIN(registrar) {
  const DeviceType toy = register_device_type("toy");
  add_kernels(toy);
  registrar.add_backend(std::make_unique<ToyBackend>(Device{toy, 0}));
}
