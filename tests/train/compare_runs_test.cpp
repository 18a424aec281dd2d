#include "ingot/train/compare_runs.h"

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/train/diff_runs.h"

namespace ingot {
namespace {

class CompareRuns : public ::testing::Test {
 protected:
  std::string add_run(const std::string& name, const std::string& config, const std::string& metrics) const {
    make_directories(directory_.at(name));
    write_file_atomically(directory_.at(name + "/config.yaml"), config);
    write_file_atomically(directory_.at(name + "/metrics.jsonl"), metrics);
    return directory_.at(name);
  }
  static std::string step(int number, double loss, int tokens_per_second = 0) {
    return R"({"type":"train","step":)" + std::to_string(number) + R"(,"loss":)" + std::to_string(loss) +
           R"(,"learning_rate":0.1,"seconds":2,"tokens_per_second":)" + std::to_string(tokens_per_second) +
           R"(,"values":{"kl":0.5}})"
           "\n";
  }
  static std::string evaluation(int number, double loss) {
    return R"({"type":"eval","step":)" + std::to_string(number) + R"(,"eval_loss":)" + std::to_string(loss) +
           "}\n";
  }
  const test::TemporaryDirectory directory_;
};

TEST_F(CompareRuns, TellsInWhatTheSettingsDifferAndNothingElse) {
  const auto runs = read_runs(
      {add_run("a", "optimizer: adamw\nmax_steps: 5\noutput_dir: a\narchitecture: {layers: 2}\n", step(1, 3)),
       add_run("b", "optimizer: adamw\nmax_steps: 9\noutput_dir: b\narchitecture: {layers: 4}\nema: [1, 2]\n",
               step(1, 3))});
  const ReportTable table = differing_settings(runs);
  EXPECT_EQ(table.columns, (std::vector<std::string>{"setting", "a", "b"}));
  using Rows = std::vector<std::vector<std::string>>;
  EXPECT_EQ(table.rows,
            (Rows{{"max_steps", "5", "9"}, {"architecture.layers", "2", "4"}, {"ema", "–", "1, 2"}}));
}

TEST_F(CompareRuns, LeavesOutDefaultsThatARunOfAnotherKindHasNoKeyFor) {
  auto runs = read_runs({add_run("a", "momentum: 0.9\nema: 3\nmax_steps: 5\n", step(1, 3)),
                         add_run("b", "max_steps: 9\n", step(1, 3))});
  runs[0].metadata = RunMetadata{};
  runs[0].metadata->configuration = {
      {"momentum", "0.9", false}, {"ema", "3", true}, {"max_steps", "5", false}};
  using Rows = std::vector<std::vector<std::string>>;
  EXPECT_EQ(differing_settings(runs).rows, (Rows{{"ema", "3", "–"}, {"max_steps", "5", "9"}}));
}

TEST_F(CompareRuns, LaysCurvesOverEachOtherByStepAndByTime) {
  const auto runs =
      read_runs({add_run("x/run", "", step(1, 3) + step(10, 2) + evaluation(5, 2.5) + evaluation(10, 2.75)),
                 add_run("y/run", "", step(1, 3) + evaluation(1, 4))});
  EXPECT_EQ(runs[0].name, "x/run") << "as much of the path as tells them apart";
  EXPECT_EQ(runs[0].best_validation(), 2.5);
  EXPECT_EQ(runs[0].last_validation(), 2.75);
  const Report report = compare_runs(runs);
  std::vector<std::string> titles;
  for (const ReportChart& chart : report.charts) titles.push_back(chart.title);
  EXPECT_EQ(titles, (std::vector<std::string>{"Validation loss", "Training loss", "Validation loss by time",
                                              "Learning rate", "kl"}));
  ASSERT_EQ(report.charts[0].series.size(), 2U);
  EXPECT_EQ(report.charts[0].series[0].y, (std::vector<double>{2.5, 2.75}));
  EXPECT_EQ(report.charts[2].series[0].x.back(), 20) << "ten steps of two seconds";
  EXPECT_EQ(report.charts[2].x_label, "seconds of training");
  EXPECT_EQ(report.figures[0].note, "x/run");
  EXPECT_EQ(report.tables[0].rows[1][0], "y/run");
}

TEST_F(CompareRuns, SpeedIsTheMedianOfTheStepsWhereverItIsTold) {
  const std::string slow_ends =
      step(1, 3, 10) + step(2, 3, 900) + step(3, 3, 800) + step(4, 3, 850) + step(5, 3, 1);
  const auto runs = read_runs({add_run("a", "", slow_ends), add_run("b", "", step(1, 3, 700))});
  const ReportTable results = compare_runs(runs).tables[0];
  EXPECT_EQ(results.columns[5], "tokens/s (median)");
  EXPECT_EQ(results.rows[0][5], "800");
  const auto metrics = diff_runs(runs[0], runs[1]).metrics;
  EXPECT_EQ(metrics.back().what, results.columns[5]);
  EXPECT_EQ(metrics.back().left, results.rows[0][5]);
  EXPECT_EQ(metrics.back().right, "700");
}

TEST_F(CompareRuns, ADirectoryWithoutMetricsIsNamed) {
  EXPECT_THROW(read_runs({directory_.path()}), IoError);
}

}  // namespace
}  // namespace ingot
