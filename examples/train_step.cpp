#include <cstdio>

#include "ingot/autograd/engine.h"
#include "ingot/nn/linear.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/optim/optimizer.h"
#include "ingot/runtime/initialize.h"

int main() {
  ingot::initialize();
  ingot::InitSource source(/*seed=*/1);
  ingot::Linear layer(source, {.in = 2, .out = 1});
  ingot::AdamW optimizer(ingot::parameters(layer), {.learning_rate = 0.1});
  const ingot::Tensor x = ingot::Tensor::from<float>({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const ingot::Tensor y = ingot::Tensor::from<float>({1, 3, 4, 6}, {4, 1});  // 3a + 2b + 1
  for (int step = 0; step < 200; ++step) {
    const ingot::Tensor loss = ingot::mse_loss(layer(x), y);
    ingot::backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    if (step % 50 == 49) std::printf("step %d loss %.5f\n", step + 1, loss.item());
  }
}
