#include "ingot/kernels/lstm.h"

#include <cmath>

#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

float logistic(float x) { return 1 / (1 + std::exp(-x)); }

void run(const LstmCellArgs& args, Stream) {
  const std::int64_t hidden = args.c.dim(1);
  for (std::int64_t i = 0; i < args.c.numel(); ++i) {
    const float* gates = args.gates.as<float>() + i / hidden * 4 * hidden + i % hidden;
    const float c = logistic(gates[2 * hidden]) * args.c.as<float>()[i] +
                    logistic(gates[0]) * std::tanh(gates[3 * hidden]);
    args.c_next.as<float>()[i] = c;
    args.h.as<float>()[i] = logistic(gates[hidden]) * std::tanh(c);
  }
}

}  // namespace

void register_lstm_reference() {
  lstm_cell.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, run});
}

}  // namespace ingot::kernels::cpu
