#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ingot/base/progress.h"
#include "ingot/train/reporters/dashboard_view.h"

namespace ingot {
namespace {

DashboardState state_of(int steps) {
  DashboardState s{.title = "a run", .subtitle = "2 layers", .total_steps = 1000};
  for (int i = 0; i < steps; ++i) s.losses.push_back(3 + std::exp(-i / 40.0));
  s.last = {
      .step = steps, .loss = 3.25, .learning_rate = 2e-4, .grad_norm = 0.91, .tokens_per_second = 12300};
  s.seconds_left = 125;
  s.evaluations = {{.step = 20, .loss = 3.5}, {.step = 10, .loss = 3.4, .best = true}};
  s.memory = {{"parameter", std::size_t{3} << 20}, {"optimizer", std::size_t{6} << 20}};
  s.layers = {"embed_tokens", "layers.0", "layers.1"};
  s.last.layer_norms = {0.01F, 0.1F, 1.5F};
  s.memory_peak = std::size_t{10} << 20;
  s.note = "海は広いな Once upon a time there was a small boat that wanted to cross the sea";
  return s;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(Dashboard, FitsEveryTerminal) {
  for (const bool color : {false, true}) {
    for (const int columns : {20, 40, 79, 159}) {
      for (const int rows : {4, 7, 12, 23, 60}) {
        const std::vector<std::string> lines = dashboard_lines(state_of(300), columns, rows, color);
        EXPECT_LE(static_cast<int>(lines.size()), rows);
        for (const std::string& line : lines) EXPECT_LE(display_width(line), columns) << line;
      }
    }
  }
}

TEST(Dashboard, TellsLossSpeedMemoryAndWhatIsLeft) {
  const std::string page = joined(dashboard_lines(state_of(300), 99, 24, false));
  for (const char* part :
       {"a run", "step 300/1000", "30 %", "ETA 2m 05s", "loss 3.2500", "gradient norm 0.91",
        "learning rate 0.0002", "validation 3.5000 at 20", "best validation 3.4000 at 10", "12.3k tokens/s",
        "gradient by layer ▁▄█ most 1.5 in layers.1", "memory 9.00 MiB, peak 10.0 MiB", "optimizer 6.00 MiB",
        "Once upon"})
    EXPECT_NE(page.find(part), std::string::npos) << page << " lacks " << part;
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
}

// U+2801 has the dot at the top left, U+2880 that at the bottom right.
TEST(Dashboard, TheCurveGoesFromTheLargestValueToTheSmallest) {
  EXPECT_EQ(braille_curve(std::vector<double>{1, 1}, 1, 1), std::vector<std::string>{"⠒"});
  const std::vector<std::string> falling = braille_curve(std::vector<double>{2, 2, 1, 1}, 2, 2);
  ASSERT_EQ(falling.size(), 2U);
  EXPECT_EQ(falling[0], "⠉⡇");
  EXPECT_EQ(falling[1], "⠀⣇");
}

TEST(Dashboard, BarsTellMagnitudesOfLayers) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bar_row(std::vector<float>{1, 10, 100, 0, infinity}, 9), "▁▅█··");
  EXPECT_EQ(bar_row(std::vector<float>{1, 10, 100, 10}, 2), "▁█") << "the largest of two each";
  EXPECT_EQ(bar_row(std::vector<float>{3, 3}, 9), "▅▅");
  EXPECT_EQ(bar_row({}, 9), "");
}

TEST(Dashboard, TheCurveLeavesOutWhatIsNotFiniteAndTakesMeansOfManySteps) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(braille_curve(std::vector<double>{nan, nan}, 1, 1), std::vector<std::string>{"⠀"});
  std::vector<double> waves;
  for (int i = 0; i < 4000; ++i) waves.push_back(i % 2);
  EXPECT_EQ(braille_curve(waves, 10, 1), braille_curve(std::vector<double>(20, 0.5), 10, 1));
}

}  // namespace
}  // namespace ingot
