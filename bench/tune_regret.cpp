// How near a sampler comes to the optimum of functions whose optimum is known, and what a suggestion costs.
// tools/compare/tpe_regret.py runs this beside Optuna. Prints JSON.
//
//   tune_regret FUNCTION SAMPLER TRIALS SEEDS      SAMPLER: random, tpe, tpe-univariate
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/tune/tuner.h"

namespace ingot::tune {
namespace {

Parameter real(const char* name, double low, double high, bool log = false) {
  return {.name = name, .low = low, .high = high, .log = log};
}

struct Problem {
  SearchSpace space;
  double optimum = 0;
  double (*value)(const Values&) = nullptr;
};

double branin(const Values& x) {
  constexpr double pi = std::numbers::pi;
  const double a = x[1] - 5.1 / (4 * pi * pi) * x[0] * x[0] + 5 / pi * x[0] - 6;
  return a * a + 10 * (1 - 1 / (8 * pi)) * std::cos(x[0]) + 10;
}

double hartmann6(const Values& x) {
  constexpr std::array<double, 4> alpha{1.0, 1.2, 3.0, 3.2};
  constexpr double a[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                              {0.05, 10, 17, 0.1, 8, 14},
                              {3, 3.5, 1.7, 10, 17, 8},
                              {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double p[4][6] = {{0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886},
                              {0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991},
                              {0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650},
                              {0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381}};
  double sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    double inner = 0;
    for (std::size_t j = 0; j < 6; ++j) inner += a[i][j] * (x[j] - p[i][j]) * (x[j] - p[i][j]);
    sum -= alpha[i] * std::exp(-inner);
  }
  return sum;
}

double rosenbrock(const Values& x) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    const double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
    sum += 100 * a * a + b * b;
  }
  return sum;
}

// As a training run looks: a rate on a logarithmic scale, whole numbers, two kinds of choices.
double mixed(const Values& x) {
  constexpr std::array<double, 4> activation{0.3, 0.0, 0.6, 0.15};
  constexpr std::array<double, 3> optimizer{0.4, 0.0, 0.2};
  const double rate = std::log10(x[0]) + 3 + (x[4] == 2 ? 1 : 0);  // its best place depends on the optimizer
  return rate * rate + 0.05 * (x[1] - 6) * (x[1] - 6) + 4 * (x[2] - 0.2) * (x[2] - 0.2) +
         activation[static_cast<std::size_t>(x[3])] + optimizer[static_cast<std::size_t>(x[4])];
}

Problem find_problem(const std::string& name) {
  if (name == "branin") {
    return {{{real("x0", -5, 10), real("x1", 0, 15)}}, 0.397887357729739, branin};
  }
  Problem problem;
  if (name == "hartmann6") {
    for (const char* axis : {"x0", "x1", "x2", "x3", "x4", "x5"})
      problem.space.parameters.push_back(real(axis, 0, 1));
    problem.optimum = -3.32236801141551;
    problem.value = hartmann6;
  } else if (name == "rosenbrock") {
    for (const char* axis : {"x0", "x1", "x2", "x3"}) problem.space.parameters.push_back(real(axis, -5, 10));
    problem.value = rosenbrock;
  } else {
    problem.space.parameters = {
        real("rate", 1e-6, 1, true),
        {.name = "layers", .kind = ParameterKind::integer, .low = 1, .high = 12},
        real("dropout", 0, 0.9),
        {.name = "activation", .kind = ParameterKind::categorical, .choices = {"a", "b", "c", "d"}},
        {.name = "optimizer", .kind = ParameterKind::categorical, .choices = {"p", "q", "r"}}};
    problem.value = mixed;
  }
  return problem;
}

int run(const std::string& name, const std::string& sampler, std::int64_t trials, std::uint64_t seeds) {
  const Problem problem = find_problem(name);
  std::vector<double> regrets, milliseconds;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Tuner tuner({.space = problem.space,
                 .sampler = {.type = sampler == "random" ? "random" : "tpe",
                             .seed = seed,
                             .multivariate = sampler != "tpe-univariate"},
                 .trials = trials});
    for (;;) {
      const auto start = std::chrono::steady_clock::now();
      std::optional<Trial> trial = tuner.suggest();
      if (!trial) break;
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      if (trial->number >= trials - 20) milliseconds.push_back(took.count());
      tuner.complete(*trial, problem.value(trial->values));
    }
    regrets.push_back(tuner.best_trial()->value - problem.optimum);
  }
  std::ranges::sort(milliseconds);
  fmt::print("{{\"regrets\": [{}], \"suggest_ms\": {:.4f}}}\n", fmt::join(regrets, ", "),
             milliseconds[milliseconds.size() / 2]);
  return 0;
}

}  // namespace
}  // namespace ingot::tune

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(
        stderr,
        "usage: tune_regret branin|hartmann6|rosenbrock|mixed random|tpe|tpe-univariate TRIALS SEEDS\n");
    return 2;
  }
  return ingot::tune::run(argv[1], argv[2], std::stoll(argv[3]), std::stoull(argv[4]));
}
