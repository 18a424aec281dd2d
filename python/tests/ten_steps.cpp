// Ten steps of AdamW on a small network, printed as the bits of the loss, of all gradients and of all
// weights, a step a line: what test_autograd.py holds the Python package against.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "ingot/autograd/engine.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/optim/optimizer.h"
#include "ingot/runtime/initialize.h"

namespace {

using namespace ingot;

// Numbers that both languages count alike and that are exact in f32.
Tensor counted(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<float>(i * 7 % 11) - 5) / 8;
  return Tensor::from(values, shape);
}

void print_bits(const Tensor& x) {
  for (std::int64_t i = 0; i < x.numel(); ++i)
    std::printf("%08x ", std::bit_cast<std::uint32_t>(x.data<float>()[i]));
}

}  // namespace

int main() {
  initialize();
  const Tensor x = counted({8, 6});
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 4, 3, 2, 1}, {8});
  Parameter up, bias, scale, shift, down;
  const std::vector<Parameter*> all{&up, &bias, &scale, &shift, &down};
  const std::vector<Shape> shapes{{16, 6}, {16}, {16}, {16}, {5, 16}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->name = std::to_string(i);
    all[i]->value = counted(shapes[i]);
    all[i]->set_trainable(true);
  }
  AdamW optimizer(all, {.learning_rate = 0.02});
  for (int step = 0; step < 10; ++step) {
    const Tensor hidden = gelu_erf(linear(x, up.value, bias.value));
    const Tensor loss =
        cross_entropy(linear(layer_norm(hidden, scale.value, shift.value), down.value), targets);
    backward(loss);
    print_bits(loss.detach());
    for (const Parameter* parameter : all) print_bits(parameter->grad());
    optimizer.step();
    optimizer.zero_grad();
    for (const Parameter* parameter : all) print_bits(parameter->value.detach());
    std::printf("\n");
  }
  return 0;
}
