#pragma once

#include <string>

#include "ingot/kernels/cuda/runtime/allocator.h"
#include "ingot/kernels/cuda/runtime/driver.h"

namespace ingot::kernels::cuda {

/// Adds a backend for every CUDA device of this machine and, where there is one, the CUDA implementations to
/// every kernel. Called by initialize(). Why no device was added, or which were left out, then stands in
/// BackendRegistry::why_missing().
void register_backends();
/// The same, with other memory. Returns that reason; empty where all are there.
std::string register_backends(CachingAllocator::Options options);

/// Why our kernels do not run on such a GPU; empty where they do.
std::string unsupported(const driver::DeviceProperties& gpu);

/// Adds the CUDA implementations to every kernel.
void register_kernels();

/// NVIDIA's libraries, which come before our own kernels of the same contract; none in the emulator.
void register_libraries();
void register_cublaslt();
void register_cudnn();  ///< only where the build found its headers

// One function per .cu file, and of pointwise.cpp, defined in that file.
void register_adamw();
void register_decode_attention();
void register_tensor_attention();
void register_attention();
void register_affine_quantize();
void register_batch_norm();
void register_binary();
void register_causal_conv();
void register_column_sum();
void register_complex();
void register_tensor_conv();
void register_conv();
void register_copy();
void register_cross_entropy();
void register_delta_rule();
void register_weighted_roll();
void register_embedding_backward();
void register_gemv();
void register_fft();
void register_fp8_matmul();
void register_gemm();
void register_group_norm();
void register_grouped();
void register_index();
void register_kv_store();
void register_loss();
void register_low_rank();
void register_moving_average();
void register_norm();
void register_norm_backward();
void register_norm_rope();
void register_norm_rope_backward();
void register_nvfp4();
void register_optimizer();
void register_pointwise();
void register_pointwise_loss();
void register_pool();
void register_quantized();
void register_quantized_rows();
void register_random();
void register_reduce();
void register_resample();
void register_rope();
void register_selective_scan();
void register_softmax();
void register_squeeze_excite();
void register_topk();
void register_unary();
void register_weight_only();

}  // namespace ingot::kernels::cuda
