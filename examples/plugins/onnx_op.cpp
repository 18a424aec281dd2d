// An operator of ONNX graphs that ONNX does not have: com.example.SquaredRelu, max(x, 0)² (Primer, So et al.
// 2021). It is made of Ingot's own operations, so it runs wherever they do.
#include "ingot/onnx/op.h"
#include "ingot/ops/elementwise.h"
#include "ingot/plugin/plugin.h"

namespace {

ingot::onnx::Values squared_relu(const ingot::onnx::OpCall& call) {
  return {ingot::square(ingot::relu(call.in(0)))};
}

}  // namespace

INGOT_PLUGIN(registrar) {
  registrar.add_onnx_op(
      {.name = "com.example.SquaredRelu", .run = squared_relu, .on_device = ingot::onnx::kEveryInput});
}
