// A kernel: silu(gate) · up of f32 without gaps, in one loop that the compiler vectorizes as far as it can.
//
//     INGOT_PLUGINS=kernel.so ingot train train.yaml --trace trace.json
//
// shows "plugin_loop" where a feed-forward layer runs. A real one would be for an instruction set, a matrix
// size or a library that Ingot does not know.
#include <cmath>

#include "ingot/kernels/elementwise.h"
#include "ingot/plugin/plugin.h"

namespace {

using ingot::kernels::SiluMulArgs;

bool accepts(const SiluMulArgs& args) {
  for (const ingot::View* view : {&args.gate, &args.up, &args.y})
    if (view->dtype != ingot::DType::f32 || !view->is_contiguous()) return false;
  return true;
}

void run(const SiluMulArgs& args, ingot::Stream) {
  const auto* gate = args.gate.as<const float>();
  const auto* up = args.up.as<const float>();
  auto* y = args.y.as<float>();
  const std::int64_t count = args.y.numel();
  for (std::int64_t i = 0; i < count; ++i) y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
}

}  // namespace

INGOT_PLUGIN(registrar) {
  registrar.add_kernel(
      ingot::kernels::silu_mul, ingot::DeviceType::cpu,
      {.name = "plugin_loop", .kind = ingot::kernels::ImplKind::library, .accepts = accepts, .run = run});
}
