#include "ingot/kernels/affine_quantize.h"

#include <cmath>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

template <class F>
void dispatch_codes(DType dtype, F&& f) {
  if (dtype == DType::i8) return f.template operator()<std::int8_t>();
  f.template operator()<std::uint8_t>();
}

// f(element, scale, zero) for each element.
template <class Q, class F>
void for_each_code(const View& q, const View& scale, const View& zero, F&& f) {
  const std::int64_t channels = q.dim(1), inner = q.dim(2);
  for (std::int64_t i = 0; i < q.numel(); ++i) {
    const std::int64_t channel = i / inner % channels;
    f(i, scale.as<float>()[channel], zero ? static_cast<float>(zero.as<Q>()[channel]) : 0.0F);
  }
}

void quantize(const AffineQuantizeArgs& args, Stream) {
  const CodeRange range(args.q.dtype);
  dispatch_float(args.x.dtype, "affine_quantize", [&]<class T>() {
    dispatch_codes(args.q.dtype, [&]<class Q>() {
      for_each_code<Q>(args.q, args.scale, args.zero, [&](std::int64_t i, float scale, float zero) {
        const float quotient = static_cast<float>(load(args.x.as<T>() + i)) / scale;
        const float code = std::nearbyint(quotient) + zero;
        args.q.as<Q>()[i] = static_cast<Q>(code > range.low ? std::fmin(code, range.high) : range.low);
      });
    });
  });
}

void dequantize(const AffineDequantizeArgs& args, Stream) {
  dispatch_float(args.x.dtype, "affine_dequantize", [&]<class T>() {
    dispatch_codes(args.q.dtype, [&]<class Q>() {
      for_each_code<Q>(args.q, args.scale, args.zero, [&](std::int64_t i, float scale, float zero) {
        store(args.x.as<T>() + i, (static_cast<float>(args.q.as<Q>()[i]) - zero) * scale);
      });
    });
  });
}

float value_of(const AffineCodes& of, std::int64_t i) {
  const auto code = of.codes.dtype == DType::i8 ? static_cast<float>(of.codes.as<std::int8_t>()[i])
                                                : static_cast<float>(of.codes.as<std::uint8_t>()[i]);
  return (code - static_cast<float>(of.zero)) * of.scale;
}

void add_codes(const AffineAddArgs& args, Stream) {
  const CodeRange range(args.y.codes.dtype);
  dispatch_codes(args.y.codes.dtype, [&]<class Q>() {
    for (std::int64_t i = 0; i < args.y.codes.numel(); ++i) {
      const float quotient = (value_of(args.a, i) + value_of(args.b, i)) / args.y.scale;
      const float code = std::nearbyint(quotient) + static_cast<float>(args.y.zero);
      args.y.codes.as<Q>()[i] = static_cast<Q>(code > range.low ? std::fmin(code, range.high) : range.low);
    }
  });
}

}  // namespace

void register_affine_quantize_reference() {
  affine_add.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, add_codes});
  affine_quantize.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, quantize});
  affine_dequantize.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, dequantize});
}

}  // namespace ingot::kernels::cpu
