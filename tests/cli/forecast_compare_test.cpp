#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/cli/numbered_days.h"
#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::testing {
namespace {

TEST(ForecastCommand, AResumedComparisonFitsOnlyWhatIsLeft) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv");
  write_days(data, 400);
  const auto compare = [&](const std::string& models, std::vector<std::string> more) {
    std::vector<std::string> words{"forecast",   "compare", data, "--horizon",          "14",
                                   "--lookback", "28",      "-o", directory.at("both"), "--overwrite"};
    for (const char* model : {"dlinear", "nlinear"})
      if (models.find(model) != std::string::npos) words.insert(words.end(), {"--model", model});
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_ingot(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.output;
  };
  const auto kept = [](const std::string& output) {
    const std::string mark = "fitted before";
    const std::size_t first = output.find(mark);
    if (first == std::string::npos) return 0;
    return output.find(mark, first + 1) == std::string::npos ? 1 : 2;
  };
  EXPECT_EQ(kept(compare("dlinear", {"--epochs", "2"})), 0);
  const std::string second = compare("dlinear nlinear", {"--epochs", "2", "--resume"});
  EXPECT_EQ(kept(second), 1) << second;
  EXPECT_NE(second.find("epoch   2"), std::string::npos) << "NLinear was fitted";
  EXPECT_EQ(kept(compare("dlinear nlinear", {"--epochs", "2"})), 0) << "without --resume all is fitted anew";
  EXPECT_EQ(kept(compare("dlinear", {"--epochs", "1", "--resume"})), 0) << "other settings";
  write_days(data, 401);
  EXPECT_EQ(kept(compare("dlinear nlinear", {"--epochs", "1", "--resume"})), 0) << "another table";
  EXPECT_EQ(kept(compare("dlinear nlinear", {"--epochs", "1", "--resume"})), 2);
}

TEST(ForecastCommand, ComparesNetworksWithModelsWithoutTrainingOnTheSameForecasts) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), output = directory.at("all");
  write_days(data, 200);
  const auto compare = [&](std::vector<std::string> models, std::vector<std::string> more) {
    std::vector<std::string> words{"forecast", "compare", data, "--horizon", "14", "-o", output};
    for (const std::string& model : models) words.insert(words.end(), {"--model", model});
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_ingot(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.output;
  };
  const std::vector<std::string> network{"--lookback",        "28",       "--epochs", "1", "--set",
                                         "min_epoch_steps=1", "--season", "7"};
  const std::string text = compare({"ets", "dlinear", "theta"}, network);
  EXPECT_NE(text.find("The least MASE is that of ets."), std::string::npos) << text;
  EXPECT_NE(text.find("ingot forecast predict " + output + "/ets " + data), std::string::npos) << text;
  EXPECT_NE(read_file(output + "/report.html").find("theta"), std::string::npos);
  EXPECT_NE(read_file(output + "/report.html").find("instruction set"), std::string::npos);
  EXPECT_EQ(run_ingot({"forecast", "predict", output + "/theta", data}).exit_code, 0);

  const auto methods_of = [](const nlohmann::json& json) {
    std::vector<std::string> names;
    for (const auto& method : json["methods"]) names.push_back(method["method"]);
    return names;
  };
  using Names = std::vector<std::string>;
  const auto json = parse_json<nlohmann::json>(
      compare({"croston", "ets"}, {"--season", "7", "--overwrite", "--json"}), "compare");
  EXPECT_EQ(methods_of(json), (Names{"croston", "ets", "naive", "seasonal_naive"}));
  EXPECT_EQ(json["best"], "ets");
  EXPECT_EQ(json["windows"], 4) << "one from every half horizon of 40 rows";
  std::vector<std::string> all = network;
  all.insert(all.end(), {"--json", "--resume"});
  const auto again = parse_json<nlohmann::json>(compare({"dlinear", "seasonal_naive"}, all), "compare");
  EXPECT_EQ(methods_of(again), (Names{"dlinear", "seasonal_naive", "naive", "ETS"}));
  const Outcome no_effect =
      run_ingot({"forecast", "compare", data, "--model", "ets", "--lookback", "9", "-o", output});
  EXPECT_NE(no_effect.errors.find("--lookback"), std::string::npos) << no_effect.errors;
}

TEST(ForecastCommand, AComparisonLeavesOutNetworksThatATableIsTooShortFor) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("months.csv");
  std::ofstream(data)
      << "ds,y\n2023-01-01,36\n2023-02-01,77\n2023-03-01,123\n2023-04-01,305\n2023-05-01,473\n"
         "2023-06-01,576\n2023-07-01,675\n2023-08-01,793\n2023-09-01,950\n";
  const Outcome told =
      run_ingot({"forecast", "compare", data, "--horizon", "2", "-o", directory.at("compared")});
  ASSERT_EQ(told.exit_code, 0) << told.errors;
  for (const char* network : {"dlinear", "patchtst", "timesnet"})
    EXPECT_NE(told.output.find(std::string(network) + " is left out: "), std::string::npos) << told.output;
  EXPECT_NE(told.output.find("tested on the last 3 rows"), std::string::npos) << told.output;
  EXPECT_NE(told.output.find("The least MASE is that of arima"), std::string::npos) << told.output;
  const Outcome named = run_ingot(
      {"forecast", "compare", data, "--model", "dlinear", "--horizon", "2", "-o", directory.at("named")});
  EXPECT_NE(named.errors.find("the table is too short"), std::string::npos) << named.errors;
  const Outcome far = run_ingot({"forecast", "compare", data, "--horizon", "8", "-o", directory.at("far")});
  EXPECT_NE(far.errors.find("its 9 rows are too few to compare forecasts of 8"), std::string::npos)
      << far.errors;
}

TEST(ForecastCommand, ComparesNothingBeforeAllOfItIsSound) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv");
  write_days(data, 300);
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"forecast",           "compare",  data,         "--model", "dlinear",
                                   "--horizon",          "7",        "--lookback", "14",      "-o",
                                   directory.at("both"), "--epochs", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_ingot(words);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(directory.at("both")));
    return outcome.errors;
  };
  EXPECT_NE(refused({"--model", "nlinaer"}).find("did you mean 'nlinear'"), std::string::npos);
  EXPECT_NE(refused({"--model", "patchtst", "--set", "d_model=10", "--set", "heads=3"}).find("heads"),
            std::string::npos);
  EXPECT_NE(refused({"--model", "dlinear"}).find("'dlinear' is given twice"), std::string::npos);
  EXPECT_NE(refused({"--set", "model=nlinear"}).find("--model"), std::string::npos);
  EXPECT_NE(refused({"--season", "250"}).find("season"), std::string::npos);
}

// The rest of the models is not begun.
TEST(ForecastCommand, CtrlCEndsAComparison) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv");
  write_days(data, 300);
  bool sent = false;
  const Outcome stopped =
      run_ingot_on_terminal({"forecast", "compare", data, "--model", "nlinear", "--model", "dlinear",
                             "--horizon", "7", "--lookback", "14", "--epochs", "4000", "--set", "patience=0",
                             "--set", "min_epoch_steps=1", "-o", directory.at("both")},
                            [&](const std::string& output, pid_t child, int) {
                              if (child == 0 || sent || output.find("epoch   2") == std::string::npos) return;
                              sent = ::kill(child, SIGINT) == 0;
                            });
  EXPECT_EQ(stopped.exit_code, 128 + SIGINT) << stopped.output;
  EXPECT_NE(stopped.output.find("nlinear, stopped"), std::string::npos) << stopped.output;
  EXPECT_FALSE(std::filesystem::exists(directory.at("both/dlinear")));
  EXPECT_TRUE(std::filesystem::exists(directory.at("both/nlinear/report.html")));
}

}  // namespace
}  // namespace ingot::testing
