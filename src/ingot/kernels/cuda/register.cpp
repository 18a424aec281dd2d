#include "ingot/kernels/cuda/register.h"

#include <fmt/format.h>

#include "ingot/base/env.h"
#include "ingot/base/units.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/kernels/cuda/runtime/backend.h"
#include "ingot/kernels/cuda/runtime/driver.h"
#include "ingot/kernels/cuda/runtime/scope_marks.h"

namespace ingot::kernels::cuda {

void register_kernels() {
  register_gemv();  // before the libraries, which are slow at these
  register_libraries();
  register_adamw();
  register_decode_attention();  // before what gives a block to each tile of queries
  register_tensor_attention();  // before what takes any head
  register_attention();
  register_affine_quantize();
  register_batch_norm();
  register_binary();
  register_causal_conv();
  register_column_sum();
  register_complex();
  register_tensor_conv();
  register_conv();
  register_copy();
  register_cross_entropy();
  register_delta_rule();
  register_weighted_roll();
  register_embedding_backward();
  register_fft();
  register_fp8_matmul();
  register_gemm();
  register_group_norm();
  register_grouped();
  register_index();
  register_kv_store();
  register_loss();
  register_low_rank();
  register_moving_average();
  register_norm();
  register_norm_backward();
  register_norm_rope();
  register_norm_rope_backward();
  register_nvfp4();
  register_optimizer();
  register_pointwise();
  register_pointwise_loss();
  register_pool();
  register_quantized();
  register_quantized_rows();
  register_random();
  register_reduce();
  register_resample();
  register_rope();
  register_selective_scan();
  register_softmax();
  register_squeeze_excite();
  register_topk();
  register_unary();
  register_weight_only();
}

std::string unsupported(const driver::DeviceProperties& gpu) {
  if (gpu.major >= 8) return "";
  return fmt::format("{} has compute capability {}.{}; 8.0 (Ampere) or newer is needed, for bf16", gpu.name,
                     gpu.major, gpu.minor);
}

void register_backends() {
  expect_gpu();
  BackendRegistry::instance().explain_missing(DeviceType::cuda,
                                              register_backends(CachingAllocator::Options{}));
}

std::string register_backends(CachingAllocator::Options options) {
  // Without, a checker of memory sees where each tensor ends, not only the large segments.
  // Environment: INGOT_CUDA_CACHING=0 | each tensor has an allocation of its own, for `compute-sanitizer`
  // (slow)
  options.caching = env_flag("CUDA_CACHING").value_or(options.caching);
  // Environment: INGOT_CUDA_POOL_SIZE, INGOT_CUDA_POOL_GROWTH | GPU memory taken at once at first, as `4GiB`,
  // and at least each time more is needed; by default as tensors need it
  if (const auto size = env_setting("CUDA_POOL_SIZE"))
    options.pool_size = parse_bytes(size->value, size->variable);
  if (const auto growth = env_setting("CUDA_POOL_GROWTH"))
    options.pool_growth = parse_bytes(growth->value, growth->variable);
  std::string problem;
  const int count = driver::device_count(problem);
  bool added = false;
  for (int index = 0; index < count; ++index) {
    if (const std::string why = unsupported(driver::properties(index)); !why.empty()) {
      problem += fmt::format("{}cuda:{}: {}", problem.empty() ? "" : "; ", index, why);
      continue;
    }
    BackendRegistry::instance().add(make_cuda_backend(index, options));
    added = true;
  }
  if (added) {
    register_kernels();
    mark_scopes_for_profilers();
  }
  return problem;
}

}  // namespace ingot::kernels::cuda
