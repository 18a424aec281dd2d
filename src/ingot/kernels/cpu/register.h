#pragma once

namespace ingot::kernels::cpu {

/// Adds the CPU implementations to every kernel, the fastest first and the reference last. Called by
/// initialize().
void register_kernels();

// One function per file of simd/, library/ and reference/, defined in that file.
void register_activations_simd();
void register_affine_quantize_simd();
void register_attention_simd();
void register_attention_backward_simd();
void register_batch_norm_simd();
void register_binary_simd();
void register_blocked_conv_library();
void register_compare_simd();
void register_complex_simd();
void register_conv_simd();
void register_conv_winograd();
void register_conv_rounded();
void register_conv_library();
void register_copy_simd();
void register_delay_simd();
void register_dequantize_simd();
void register_fft_simd();
void register_gemm_primitive();
void register_gemm_simd();
void register_gemm_library();
void register_group_norm_simd();
void register_index_simd();
void register_interleave_simd();
void register_kv_store_simd();
void register_loss_simd();
void register_lstm_simd();
void register_moving_average_simd();
void register_norm_simd();
void register_norm_rope_simd();
void register_optimizer_simd();
void register_pointwise_loss_simd();
void register_pool_simd();
void register_quantized_amx();
void register_quantized_avx512_vnni();
void register_quantized_avx512();
void register_quantized_avx2();
void register_quantized_conv_simd();
void register_quantized_conv_vnni();
void register_random_simd();
void register_reduce_simd();
void register_resample_simd();
void register_rope_simd();
void register_softmax_simd();
void register_squeeze_excite_simd();
void register_topk_simd();
void register_unary_simd();
void register_unary_backward_simd();
void register_weight_only_avx512();
void register_weight_only_avx2();
void register_winograd_conv_simd();

void register_affine_quantize_reference();
void register_attention_reference();
void register_complex_reference();
void register_batch_norm_reference();
void register_blocked_conv_reference();
void register_conv_reference();
void register_copy_reference();
void register_delay_reference();
void register_elementwise_reference();
void register_fft_reference();
void register_fp8_matmul_reference();
void register_gemm_reference();
void register_pointwise_reference();
void register_group_norm_reference();
void register_grouped_reference();
void register_index_reference();
void register_kv_store_reference();
void register_loss_reference();
void register_lstm_reference();
void register_moving_average_reference();
void register_norm_reference();
void register_norm_rope_reference();
void register_optimizer_reference();
void register_pointwise_loss_reference();
void register_pool_reference();
void register_quantized_conv_reference();
void register_quantized_reference();
void register_random_reference();
void register_reduce_reference();
void register_resample_reference();
void register_rope_reference();
void register_softmax_reference();
void register_squeeze_excite_reference();
void register_topk_reference();
void register_weight_only_reference();
void register_winograd_conv_reference();

}  // namespace ingot::kernels::cpu
