#include "ingot/tune/parzen.h"

#include <cmath>

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::tune {
namespace {

nlohmann::json goldens() {
  const std::string path = test::source_dir() + "/tests/tune/goldens/parzen.json";
  return parse_json<nlohmann::json>(read_file(path), path);
}

TEST(Parzen, KernelsWeightsAndDensitiesAreThoseOfOptuna) {
  const nlohmann::json cases = goldens()["cases"];
  ASSERT_FALSE(cases.empty());
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const SearchSpace space = read_search_space(Config::parse(dump_json(golden["space"])).root());
    std::vector<std::size_t> axes(space.size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    // JSON objects are sorted by name, and so is what is read from them; the rows follow the file's order.
    std::vector<std::vector<double>> observations(space.size()), points(space.size());
    std::vector<std::string> names = golden["names"].get<std::vector<std::string>>();
    for (std::size_t row = 0; row < names.size(); ++row) {
      for (std::size_t i = 0; i < space.size(); ++i) {
        if (space.parameters[i].name != names[row]) continue;
        observations[i] = golden["observations"][row].get<std::vector<double>>();
        points[i] = golden["points"][row].get<std::vector<double>>();
      }
    }
    ParzenEstimator estimator(space, axes, observations, 1.0);
    const auto weights = golden["weights"].get<std::vector<double>>();
    ASSERT_EQ(estimator.weights().size(), weights.size());
    for (std::size_t k = 0; k < weights.size(); ++k) EXPECT_NEAR(estimator.weights()[k], weights[k], 1e-14);
    if (golden.contains("centres") && space.size() == 1) {
      for (std::size_t k = 0; k < weights.size(); ++k) {
        EXPECT_NEAR(estimator.axis(0).centres()[k], golden["centres"][k].get<double>(), 1e-9);
        EXPECT_NEAR(estimator.axis(0).widths()[k], golden["widths"][k].get<double>(), 1e-9);
      }
    }
    const auto expected = golden["log_density"].get<std::vector<double>>();
    for (std::size_t p = 0; p < expected.size(); ++p) {
      std::vector<double> point(space.size());
      for (std::size_t i = 0; i < space.size(); ++i) point[i] = points[i][p];
      EXPECT_NEAR(estimator.log_density(point), expected[p], 1e-7) << "point " << p;
    }
  }
}

TEST(Parzen, LogarithmsOfGaussianMassesAreExactInBothTails) {
  const nlohmann::json masses = goldens()["masses"];
  ASSERT_FALSE(masses.empty());
  for (const auto& row : masses) {
    const double a = row[0], b = row[1], expected = row[2];
    EXPECT_NEAR(log_normal_mass(a, b), expected, 1e-9 * std::max(1.0, std::abs(expected))) << a << " " << b;
    EXPECT_NEAR(log_normal_mass(-b, -a), expected, 1e-9 * std::max(1.0, std::abs(expected))) << a << " " << b;
  }
}

// A density: it integrates to one over a parameter with steps.
RC_GTEST_PROP(Parzen, MassesOfAllValuesAddUpToOne, ()) {
  const int high = *rc::gen::inRange(1, 40);
  const bool log = *rc::gen::arbitrary<bool>();
  const int step = log ? 1 : *rc::gen::inRange(1, std::max(2, high));  // which may not divide the range
  SearchSpace space{{{.name = "n",
                      .kind = ParameterKind::integer,
                      .low = 1,
                      .high = static_cast<double>(high),
                      .step = log ? 0.0 : step,
                      .log = log}}};
  std::vector<double> seen;
  for (const int x : *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, high + 1)))
    seen.push_back(space.nearest_allowed(0, x));
  ParzenEstimator estimator(space, {0}, {seen}, 1.0);
  double sum = 0;
  for (int x = 1; x <= high; x += step)
    sum += std::exp(estimator.log_density(std::vector<double>{static_cast<double>(x)}));
  RC_ASSERT(std::abs(sum - 1) < 1e-6);
}

// Draws come as often as the density says.
TEST(Parzen, DrawsFollowTheDensity) {
  SearchSpace space{{{.name = "n", .kind = ParameterKind::integer, .low = 0, .high = 9},
                     {.name = "c", .kind = ParameterKind::categorical, .choices = {"a", "b", "c"}}}};
  ParzenEstimator estimator(space, {0, 1}, {{2, 3, 7}, {0, 0, 2}}, 1.0);
  Rng rng(5);
  std::vector<int> count(30);
  constexpr int kDraws = 60'000;
  for (int i = 0; i < kDraws; ++i) {
    const std::vector<double> x = estimator.sample(rng);
    ++count[static_cast<std::size_t>(x[0] * 3 + x[1])];
  }
  for (int n = 0; n < 10; ++n) {
    for (int c = 0; c < 3; ++c) {
      const double p = std::exp(estimator.log_density(std::vector<double>{double(n), double(c)}));
      EXPECT_NEAR(count[static_cast<std::size_t>(n * 3 + c)] / double(kDraws), p,
                  5 * std::sqrt(p / kDraws) + 1e-4);
    }
  }
}

}  // namespace
}  // namespace ingot::tune
