#include "ingot/kernels/cpu/register.h"

#include "ingot/kernels/cpu/low_rank.h"
#include "ingot/kernels/kernel_traits.h"

namespace ingot::kernels::cpu {

namespace {

// The logits of a few hundred tokens are near the caches.
constexpr std::int64_t kLogitsBytes = std::int64_t{96} << 20;

// They run on the caller's threads and need no memory between them.
constexpr KernelTraits kTraits{.logits_bytes = kLogitsBytes,
                               .half_precision_caches = false,
                               .scratch = false,
                               .rounded_inputs = true,
                               .dequantizes_for_many_rows = false,
                               .int8_low_rank = true,
                               .low_rank_rows = KernelTraits::kAlways,
                               .low_rank_rows_in_half = 0,
                               .repeats_gelu = true,
                               .widest_head = KernelTraits::kAlways};

}  // namespace

// Order is preference: launch() takes the first implementation that accepts its arguments.
void register_kernels() {
  set_kernel_traits(DeviceType::cpu, kTraits);
  register_activations_simd();
  register_affine_quantize_simd();
  register_attention_simd();
  register_attention_backward_simd();
  register_batch_norm_simd();
  register_binary_simd();
  register_blocked_conv_library();
  register_compare_simd();
  register_causal_conv_simd();
  register_complex_simd();
  register_conv_rounded();  // where it accepts, faster than our own kernels too
  register_conv_winograd();
  register_conv_simd();
  register_conv_library();
  register_interleave_simd();  // what it takes the others would take, slowly
  register_copy_simd();
  register_copy_bytes();
  register_delay_simd();
  register_delta_rule_simd();
  register_dequantize_simd();
  register_fft_simd();
  register_gemm_simd();
  register_narrow_gemm();
  register_gemm_primitive();
  register_gemm_library();
  register_group_norm_simd();
  register_index_simd();
  register_kv_store_simd();
  register_loss_simd();
  register_low_rank_simd();
  register_lstm_simd();
  register_moving_average_simd();
  register_norm_simd();
  register_nvfp4_simd();
  register_norm_rope_simd();
  register_optimizer_simd();
  register_pointwise_loss_simd();
  register_pool_simd();
  register_quantized_amx();
  register_quantized_avx512_vnni();
  register_quantized_avx512();
  register_quantized_avx2();
  register_quantized_conv_vnni();
  register_quantized_conv_simd();
  register_winograd_conv_simd();
  register_random_simd();
  register_reduce_simd();
  register_resample_simd();
  register_rope_simd();
  register_selective_scan_simd();
  register_softmax_simd();
  register_squeeze_excite_simd();
  register_topk_simd();
  register_unary_simd();
  register_unary_backward_simd();
  register_weight_only_avx512();
  register_weight_only_avx2();

  register_affine_quantize_reference();
  register_attention_reference();
  register_causal_conv_reference();
  register_complex_reference();
  register_batch_norm_reference();
  register_blocked_conv_reference();
  register_conv_reference();
  register_copy_reference();
  register_delay_reference();
  register_delta_rule_reference();
  register_elementwise_reference();
  register_fft_reference();
  register_fp8_matmul_reference();
  register_gemm_reference();
  register_pointwise_reference();
  register_group_norm_reference();
  register_grouped_reference();
  register_index_reference();
  register_kv_store_reference();
  register_loss_reference();
  register_low_rank_reference();
  register_lstm_reference();
  register_moving_average_reference();
  register_norm_reference();
  register_norm_rope_reference();
  register_nvfp4_reference();
  register_optimizer_reference();
  register_pointwise_loss_reference();
  register_pool_reference();
  register_quantized_conv_reference();
  register_winograd_conv_reference();
  register_quantized_reference();
  register_random_reference();
  register_reduce_reference();
  register_resample_reference();
  register_rope_reference();
  register_selective_scan_reference();
  register_softmax_reference();
  register_squeeze_excite_reference();
  register_topk_reference();
  register_weight_only_reference();
}

}  // namespace ingot::kernels::cpu
