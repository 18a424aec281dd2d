// environment_probe NAME GAMES STEPS: plays many games of a kind, each player taking the first legal action,
// and prints the microseconds of a step, for tools/bench/python_overhead.py: what a loop in C++ costs.
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/tensor.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/reduce.h"
#include "ingot/rl/named_environment.h"
#include "ingot/runtime/initialize.h"

namespace {

using namespace ingot;

// The tensors that ingot.rl.VectorGame has, so that both loops do the same work.
struct Loop {
  Loop(const std::string& name, std::int64_t games)
      : environment(make_environment(name, static_cast<std::size_t>(games), 1)) {
    std::vector<std::int64_t> seen = environment->spec().observation;
    seen.insert(seen.begin(), games);
    observations = Tensor::zeros(Shape(seen));
    legal = Tensor::zeros({games, environment->spec().actions});
    rewards = Tensor::zeros({games, environment->spec().players});
    ended = Tensor::zeros({games}, DType::u8);
  }
  template <class T>
  static std::span<T> all(Tensor& x) {
    return {x.data<T>(), static_cast<std::size_t>(x.numel())};
  }
  void step() {
    environment->observe(all<float>(observations), all<float>(legal));
    Tensor actions = to(argmax(legal, 1), DType::i32);
    environment->step(all<std::int32_t>(actions), all<float>(rewards), all<std::uint8_t>(ended));
  }

  std::unique_ptr<Environment> environment;
  Tensor observations, legal, rewards, ended;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    initialize();
    INGOT_CHECK(argc == 4, Error("environment_probe NAME GAMES STEPS"));
    Loop loop(argv[1], std::stoll(argv[2]));
    const int steps = std::stoi(argv[3]);
    for (int i = 0; i < steps / 10; ++i) loop.step();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) loop.step();
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
    fmt::print("{}\n", spent.count() / steps);
  } catch (const std::exception& error) {
    fmt::print(stderr, "environment_probe: {}\n", error.what());
    return 1;
  }
  return 0;
}
