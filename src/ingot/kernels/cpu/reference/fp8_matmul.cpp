#include "ingot/kernels/fp8_matmul.h"

#include <algorithm>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

float value_at(const View& x, std::int64_t i) {
  return x.dtype == DType::f8e4m3 ? static_cast<float>(x.as<f8e4m3>()[i])
                                  : static_cast<float>(x.as<f8e5m2>()[i]);
}

void fp8_matmul_reference(const Fp8MatmulArgs& args, Stream) {
  const std::int64_t m = args.a.dim(0), n = args.b.dim(0), k = args.a.dim(1);
  const bool blocks = has_block_scales(args);
  const std::int64_t depth = blocks ? kFp8Block : std::max<std::int64_t>(k, 1),
                     parts = (k + depth - 1) / depth;
  const auto scale = [&](std::int64_t row, std::int64_t column, std::int64_t part) {
    const auto* a = args.a_scale.as<float>();
    const auto* b = args.b_scale.as<float>();
    return blocks ? a[row * parts + part] * b[column / kFp8Block * parts + part] : a[0] * b[0];
  };
  dispatch_float(args.c.dtype, "fp8_matmul", [&]<class C>() {
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        float total = 0;
        for (std::int64_t part = 0; part < parts; ++part) {
          float sum = 0;
          for (std::int64_t d = part * depth; d < std::min(k, (part + 1) * depth); ++d)
            sum += value_at(args.a, row * k + d) * value_at(args.b, column * k + d);
          total += sum * scale(row, column, part);
        }
        C* c = args.c.as<C>() + row * n + column;
        if (args.bias) total += static_cast<float>(load(args.bias.as<C>() + column));
        store(c, static_cast<Accumulator<C>>(total), args.accumulate);
      }
    }
  });
}

}  // namespace

void register_fp8_matmul_reference() {
  fp8_matmul.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, fp8_matmul_reference});
}

}  // namespace ingot::kernels::cpu
