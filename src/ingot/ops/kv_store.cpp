#include "ingot/ops/kv_store.h"

#include "ingot/kernels/kernel_traits.h"
#include "ingot/kernels/kv_store.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

Tensor storable(const Tensor& x) {
  const Tensor rows = x.stride(-1) == 1 ? x : contiguous(x);
  return kernels::kernel_traits(x.device()).half_precision_caches ? rows : to(rows, DType::f32);
}

}  // namespace

void store_keys_and_values(const Tensor& keys, const Tensor& values, const KvDestination& to,
                           const Tensor& position, const Tensor& caches) {
  const Tensor key_rows = storable(keys), value_rows = to.values.defined() ? storable(values) : Tensor();
  kernels::launch(kernels::kv_store, current_stream(keys.device()),
                  {.x = key_rows.view(),
                   .y = to.keys.view(),
                   .scale = to.key_scale.view(),
                   .position = position.view(),
                   .also_x = value_rows.view(),
                   .also_y = to.values.view(),
                   .also_scale = to.value_scale.view(),
                   .caches = caches.view()});
}

}  // namespace ingot
