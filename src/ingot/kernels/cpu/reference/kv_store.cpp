#include "ingot/kernels/kv_store.h"

#include "ingot/kernels/cpu/int8_rounding.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

void store_quantised(const float* x, std::int64_t n, std::int8_t* y, float* scale) {
  const Int8Rounding rounding(x, n);
  *scale = rounding.scale;
  for (std::int64_t i = 0; i < n; ++i) y[i] = rounding.code(x[i]);
}

template <class F>
void for_each_row(const KvStoreArgs& args, F&& f) {
  const std::int64_t first = args.position ? args.position.as<std::int32_t>()[0] : 0;
  for (std::int64_t i = 0; i < args.x.dim(0); ++i) {
    const std::int64_t at = first + i;
    if (at < 0 || at >= args.y.dim(1)) continue;
    for (std::int64_t h = 0; h < args.x.dim(1); ++h) {
      f(args.x.as<float>() + i * args.x.stride(0) + h * args.x.stride(1),
        h * args.y.stride(0) + at * args.y.stride(1), h * args.scale.stride(0) + at);
    }
  }
}

void store_all(const KvStoreArgs& args) {
  const std::int64_t d = args.x.dim(2);
  if (args.y.dtype == DType::i8) {
    for_each_row(args, [&](const float* x, std::int64_t y, std::int64_t scale) {
      store_quantised(x, d, args.y.as<std::int8_t>() + y, args.scale.as<float>() + scale);
    });
    return;
  }
  dispatch_float(args.y.dtype, "kv_store", [&]<class T>() {
    for_each_row(args, [&](const float* x, std::int64_t y, std::int64_t) {
      for (std::int64_t c = 0; c < d; ++c) store(args.y.as<T>() + y + c, Accumulator<T>{x[c]});
    });
  });
}

void kv_store_reference(const KvStoreArgs& args, Stream) {
  store_all(args);
  if (args.also_x) store_all(args.also());
}

}  // namespace

void register_kv_store_reference() {
  kv_store.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, kv_store_reference});
}

}  // namespace ingot::kernels::cpu
