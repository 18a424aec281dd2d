#pragma once

#include "ingot/c_api/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Computation on tensors. Operands of a call are on one device and, unless it says otherwise, of one dtype:
/// f32, f64, f16 or bf16, of any strides. Results are new tensors. The work goes into `stream` (NULL: the
/// device's default one), and no gradient is kept. Errors: INGOT_SHAPE_MISMATCH, INGOT_DEVICE_MISMATCH,
/// INGOT_KERNEL_ERROR for a dtype.

/// a [..., m, k] times b [..., k, n]: [..., m, n]. Leading axes broadcast as NumPy's; a vector is one row (a)
/// or one column (b), whose axis the result lacks. Sums of f16 and bf16 are f32.
INGOT_API IngotStatus ingot_matmul(const IngotTensor* a, const IngotTensor* b, IngotStream* stream,
                                   IngotTensor** out);
/// x [..., in] times weight [out, in], transposed, plus bias [out] (may be NULL): [..., out]. An f32 x also
/// takes a weight in bf16 or f16.
INGOT_API IngotStatus ingot_linear(const IngotTensor* x, const IngotTensor* weight, const IngotTensor* bias,
                                   IngotStream* stream, IngotTensor** out);

/// a [m, k] times b [n, k], transposed, plus bias [n] (may be NULL): [m, n] in `out_dtype` (f32, bf16 or
/// f16), the bias' too. a and b are contiguous 8-bit floats, not both E5M2. Scales are f32 and multiply the
/// stored numbers: [1] each for whole tensors; or a_scale [m, ceil(k / 128)] and b_scale [ceil(n / 128),
/// ceil(k / 128)] for blocks of 128.
INGOT_API IngotStatus ingot_matmul_fp8(const IngotTensor* a, const IngotTensor* a_scale, const IngotTensor* b,
                                       const IngotTensor* b_scale, const IngotTensor* bias,
                                       IngotDtype out_dtype, IngotStream* stream, IngotTensor** out);

/// A weight that is quantized and laid out for matmuls.
typedef struct IngotPackedMatrix IngotPackedMatrix;
/// weight: [out, in] of f32, bf16 or f16 on the CPU. format: "q8_0", "q4_k", "int4-g128", "nf4", "fp8", ...;
/// "f32" rounds nothing. INGOT_INVALID_CONFIG lists the formats.
INGOT_API IngotStatus ingot_pack(const IngotTensor* weight, const char* format, IngotPackedMatrix** out);
/// x f32 [..., in] times the weight, transposed, plus bias f32 [out] (may be NULL): f32 [..., out].
INGOT_API IngotStatus ingot_packed_linear(const IngotTensor* x, const IngotPackedMatrix* weight,
                                          const IngotTensor* bias, IngotStream* stream, IngotTensor** out);
/// The values that are left, f32 [out, in].
INGOT_API IngotStatus ingot_packed_values(const IngotPackedMatrix* weight, IngotTensor** out);
/// NULL is allowed.
INGOT_API IngotStatus ingot_packed_close(IngotPackedMatrix* weight);

/// x / sqrt(mean(x^2) + eps) * weight over the last axis. x: [..., d]; weight: [d].
INGOT_API IngotStatus ingot_rms_norm(const IngotTensor* x, const IngotTensor* weight, float eps,
                                     IngotStream* stream, IngotTensor** out);
/// (x - mean) / sqrt(variance + eps) * weight + bias over the last axis. x: [..., d]; weight, bias: [d], may
/// be NULL.
INGOT_API IngotStatus ingot_layer_norm(const IngotTensor* x, const IngotTensor* weight,
                                       const IngotTensor* bias, float eps, IngotStream* stream,
                                       IngotTensor** out);
/// Over the last axis.
INGOT_API IngotStatus ingot_softmax(const IngotTensor* x, IngotStream* stream, IngotTensor** out);

/// Fill with ingot_attention_options().
typedef struct IngotAttentionOptions {
  size_t size;     ///< of this struct, as the caller knows it
  int32_t causal;  ///< 1: a query sees the keys up to its own (the default); 0: all
  float scale;     ///< of the scores; 0: 1/sqrt(D)
  int64_t window;  ///< a query sees the last so many keys, its own included; 0: all
  float softcap;   ///< scores become softcap*tanh(score/softcap); 0: off
  const IngotTensor*
      doc_start;  ///< packed sequences: i32 [B, S], where each token's document starts; NULL: one
  const IngotTensor*
      kv_length;  ///< i32 [B], valid keys of each sequence in a cache that is not full; NULL: all
} IngotAttentionOptions;
INGOT_API IngotStatus ingot_attention_options(IngotAttentionOptions* options, size_t size);
/// softmax(scale * q k^T) v with grouped heads. q: [B, S, Hq, D]; k: [B, T, Hkv, D]; v: [B, T, Hkv, Dv]; Hq a
/// multiple of Hkv. Returns [B, S, Hq, Dv]. With S < T the queries are the last S positions. options NULL:
/// causal.
INGOT_API IngotStatus ingot_attention(const IngotTensor* q, const IngotTensor* k, const IngotTensor* v,
                                      const IngotAttentionOptions* options, IngotStream* stream,
                                      IngotTensor** out);

typedef int32_t IngotBinary;
enum {
  INGOT_ADD = 0,
  INGOT_SUB = 1,
  INGOT_MUL = 2,
  INGOT_DIV = 3,
  INGOT_MAXIMUM = 4,
  INGOT_MINIMUM = 5,
  INGOT_SILU_MUL = 6  ///< silu(a) * b, one shape
};
/// Element by element; shapes broadcast as NumPy's. ADD, SUB and MUL take i64 and i32 too.
INGOT_API IngotStatus ingot_binary(IngotBinary op, const IngotTensor* a, const IngotTensor* b,
                                   IngotStream* stream, IngotTensor** out);

typedef int32_t IngotUnary;
enum {
  INGOT_NEG = 0,
  INGOT_EXP = 1,
  INGOT_LOG = 2,
  INGOT_SQRT = 3,
  INGOT_SIGMOID = 4,
  INGOT_TANH = 5,
  INGOT_RELU = 6,
  INGOT_SILU = 7,
  INGOT_GELU = 8,      ///< with the normal distribution's function
  INGOT_GELU_TANH = 9  ///< its approximation
};
INGOT_API IngotStatus ingot_unary(IngotUnary op, const IngotTensor* x, IngotStream* stream,
                                  IngotTensor** out);

typedef int32_t IngotReduction;
enum { INGOT_SUM = 0, INGOT_MEAN = 1, INGOT_MAX = 2, INGOT_MIN = 3 };
/// Over axes [count], which go away; `count` 0: over all.
INGOT_API IngotStatus ingot_reduce(IngotReduction op, const IngotTensor* x, const int32_t* axes, size_t count,
                                   IngotStream* stream, IngotTensor** out);
/// i64 index of the largest element along an axis, the first of equals.
INGOT_API IngotStatus ingot_argmax(const IngotTensor* x, int32_t axis, IngotStream* stream,
                                   IngotTensor** out);

#ifdef __cplusplus
}
#endif
