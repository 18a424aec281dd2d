#include "ingot/kernels/cuda/elementwise/pointwise_source.h"

#include <array>
#include <bit>

#include <fmt/format.h>

#include "ingot/kernels/cuda/runtime/embedded.h"

namespace ingot::kernels::cuda {
namespace {

using Kind = PointwiseStep::Kind;

// As unary.cu and binary.cu compute them; {0}, {1}: the operands, {2}, {3}: alpha and beta. Sums and products
// of two values are rounded before anything is added to them, or the compiler would round a chain but once.
constexpr std::array<const char*, kUnaryOps> kUnary{"scaled({0}, {2}, {3})",
                                                    "fabsf({0})",
                                                    "expf({0})",
                                                    "logf({0})",
                                                    "sqrtf({0})",
                                                    "rsqrtf({0})",
                                                    "__fmul_rn({0}, {0})",
                                                    "1.0F / {0}",
                                                    "sinf({0})",
                                                    "cosf({0})",
                                                    "sigmoid({0})",
                                                    "tanhf({0})",
                                                    "{0} < 0.0F ? 0.0F : {0}",
                                                    "silu({0})",
                                                    "gelu_erf({0})",
                                                    "gelu_tanh({0})",
                                                    "mish({0})",
                                                    "softplus({0})",
                                                    "powf({0}, {2})",
                                                    "{0} < {2} ? {2} : {0} > {3} ? {3} : {0}",
                                                    "erff({0})",
                                                    "leaky_relu({0}, {2})",
                                                    "elu({0}, {2})",
                                                    "floorf({0})",
                                                    "ceilf({0})",
                                                    "rintf({0})",
                                                    "sign_of({0})"};
constexpr std::array<const char*, kUnaryOps> kDerivative{"{2}",
                                                         "sign({0})",
                                                         "{0}",
                                                         "1.0F / {0}",
                                                         "0.5F / {0}",
                                                         "-0.5F * {0} * {0} * {0}",
                                                         "2.0F * {0}",
                                                         "-{0} * {0}",
                                                         "cosf({0})",
                                                         "-sinf({0})",
                                                         "{0} * (1.0F - {0})",
                                                         "1.0F - {0} * {0}",
                                                         "({0} > 0.0F ? 1.0F : 0.0F)",
                                                         "silu_derivative({0})",
                                                         "gelu_erf_derivative({0})",
                                                         "gelu_tanh_derivative({0})",
                                                         "mish_derivative({0})",
                                                         "sigmoid({0})",
                                                         "({2} == 0.0F ? 0.0F : {2} * powf({0}, {2} - 1.0F))",
                                                         "({0} >= {2} && {0} <= {3} ? 1.0F : 0.0F)",
                                                         "erf_derivative({0})",
                                                         "({0} > 0.0F ? 1.0F : {2})",
                                                         "elu_derivative({0}, {2})",
                                                         "0.0F",
                                                         "0.0F",
                                                         "0.0F",
                                                         "0.0F"};
constexpr std::array<const char*, 6> kBinary{"__fadd_rn({0}, {1})",
                                             "__fadd_rn({0}, -{1})",
                                             "__fmul_rn({0}, {1})",
                                             "{0} / {1}",
                                             "{0} > {1} || {0} != {0} ? {0} : {1}",
                                             "{0} < {1} || {0} != {0} ? {0} : {1}"};

std::string value(int number) { return fmt::format("v{}", number); }

// Every float exactly, infinity too.
std::string literal(double x) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  return fmt::format("as_float(0x{:08x}U)", bits);
}

std::string partial(const PointwiseStep& step, const std::string& a, const std::string& b) {
  if (step.binary == BinaryOp::div) return fmt::format("-{0} / ({1} * {1})", a, b);
  return fmt::format("({0} == {1} ? 0.5F : {0} > {1} ? {2})", a, b,
                     step.binary == BinaryOp::maximum ? "1.0F : 0.0F" : "0.0F : 1.0F");
}

std::string expression(const PointwiseStep& step) {
  const std::string a = value(step.a), b = value(step.b), c = value(step.c);
  const auto filled = [&](const char* pattern) {
    return fmt::format(fmt::runtime(pattern), a, b, literal(step.alpha), literal(step.beta));
  };
  switch (step.kind) {
    case Kind::unary:
      return filled(kUnary[static_cast<std::size_t>(step.unary)]);
    case Kind::unary_backward:
      return fmt::format("__fmul_rn({}, {})", filled(kDerivative[static_cast<std::size_t>(step.unary)]), b);
    case Kind::binary:
      return filled(kBinary[static_cast<std::size_t>(step.binary)]);
    case Kind::binary_backward:
      return fmt::format("__fmul_rn({}, {})", c, partial(step, a, b));
  }
  return {};
}

const char* element_type(DType dtype) {
  return dtype == DType::f32 ? "float" : dtype == DType::f16 ? "half_t" : "bfloat_t";
}

// Without the toolkit's headers, which a machine that runs PyTorch's packages does not have.
constexpr const char* kBefore = R"(#if defined(__CUDACC_RTC__)
struct half_t {{
  unsigned short bits;
}};
struct bfloat_t {{
  unsigned short bits;
}};
__device__ __forceinline__ float to_float(float x) {{ return x; }}
__device__ __forceinline__ float to_float(half_t x) {{
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}}
__device__ __forceinline__ float to_float(bfloat_t x) {{
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}}
template <class T>
__device__ __forceinline__ T from_float(float x) {{
  return x;
}}
template <>
__device__ __forceinline__ half_t from_float<half_t>(float x) {{
  half_t y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}}
template <>
__device__ __forceinline__ bfloat_t from_float<bfloat_t>(float x) {{
  bfloat_t y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}}
__device__ __forceinline__ float as_float(unsigned bits) {{ return __uint_as_float(bits); }}
{0}
using namespace ingot::kernels::cuda;
#else
#include <bit>
#include "ingot/kernels/cuda/device/functions.h"
inline float as_float(unsigned bits) {{ return std::bit_cast<float>(bits); }}
#endif

using T = {1};
constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
struct alignas(16) Wide {{
  T values[kWidth];
}};
__device__ __forceinline__ float rounded(float x) {{ return to_float(from_float<T>(x)); }}

)";

constexpr const char* kAfter = R"(
extern "C" __global__ void {0}({1}T* y, long long n) {{
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (long long i = first; i < n / kWidth; i += step) {{
    {2}Wide out = {3};
    for (int k = 0; k < kWidth; ++k) out.values[k] = element({4}out.values[k]);
    reinterpret_cast<Wide*>(y)[i] = out;
  }}
  for (long long i = n / kWidth * kWidth + first; i < n; i += step) y[i] = element({5}y[i]);
}}
)";

}  // namespace

std::string pointwise_source(std::span<const PointwiseStep> steps, std::size_t inputs, DType dtype,
                             bool accumulate) {
  std::string text = fmt::format(fmt::runtime(kBefore),
                                 std::string(cuda_text::approximate()) + std::string(cuda_text::functions()),
                                 element_type(dtype));
  std::string parameters, loads, packed, single, declared;
  for (std::size_t i = 0; i < inputs; ++i) {
    parameters += fmt::format("const T* x{}, ", i);
    loads += fmt::format("const Wide p{0} = reinterpret_cast<const Wide*>(x{0})[i];\n    ", i);
    packed += fmt::format("p{}.values[k], ", i);
    single += fmt::format("x{}[i], ", i);
    declared += fmt::format("T a{}, ", i);
  }
  text += fmt::format("__device__ __forceinline__ T element({}T old) {{\n", declared);
  for (std::size_t i = 0; i < inputs; ++i) text += fmt::format("  const float v{0} = to_float(a{0});\n", i);
  int number = static_cast<int>(inputs);
  for (const PointwiseStep& step : steps) {
    const bool last = &step == &steps.back();
    const std::string result =
        step.sum < 0 ? expression(step) : fmt::format("__fadd_rn({}, {})", value(step.sum), expression(step));
    text += fmt::format("  const float {} = {}({});\n", value(number++),
                        last && step.sum < 0 ? "" : "rounded", result);
  }
  text += fmt::format(
      "  return from_float<T>({});\n}}\n",
      accumulate ? fmt::format("__fadd_rn(to_float(old), {})", value(number - 1)) : value(number - 1));
  text += fmt::format(fmt::runtime(kAfter), kPointwiseFunction, parameters, loads,
                      accumulate ? "reinterpret_cast<const Wide*>(y)[i]" : "{}", packed, single);
  return text;
}

}  // namespace ingot::kernels::cuda
