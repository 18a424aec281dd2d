#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/cli/numbered_days.h"
#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/directory_lock.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::testing {
namespace {

TEST(ForecastCommand, TellsOfGapsWhereverItReadsATable) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model"),
                    gaps = directory.at("gaps.csv");
  write_days(data, 400);
  ASSERT_EQ(run_ingot({"forecast", "fit", data, "--horizon", "14", "--lookback", "28", "--epochs", "1", "-o",
                       model})
                .exit_code,
            0);
  std::string rows = read_file(data);
  const auto cut = rows.find("\n390,") + 1;
  rows.erase(cut, rows.find('\n', cut) + 1 - cut);
  write_file_atomically(gaps, rows + "400,\n");
  const std::string missing = "1 row is missing", end = "1 row is left out at the end, from line 401 on";
  for (const std::string command : {"predict", "evaluate", "plot"}) {
    std::vector<std::string> words{"forecast", command, model, gaps};
    if (command == "plot") words.insert(words.end(), {"-o", directory.at("page.html")});
    const Outcome told = run_ingot(words);
    EXPECT_NE(told.errors.find(missing), std::string::npos) << command << told.errors;
    EXPECT_NE(told.errors.find(end), std::string::npos) << command << told.errors;
    words.push_back("--json");
    const auto json = parse_json<nlohmann::json>(run_ingot(words).output, command);
    EXPECT_EQ(json["gaps"]["missing_rows"], 1) << command;
    EXPECT_EQ(json["gaps"]["rows_left_out"], 1) << command;
  }
}

TEST(ForecastCommand, ADirectoryThatAnotherFitWritesToIsRefused) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv");
  write_days(data, 400);
  const DirectoryLock other(directory.at("busy"));
  for (const char* command : {"fit", "compare"}) {
    const Outcome refused = run_ingot({"forecast", command, data, "--horizon", "14", "--lookback", "28",
                                       "--epochs", "1", "--model", "dlinear", "-o", directory.at("busy")});
    EXPECT_NE(refused.errors.find("another process writes its results there"), std::string::npos)
        << command << refused.errors;
  }
  const Outcome local = run_ingot(
      {"forecast", "fit", data, "--horizon", "14", "--model", "seasonal_naive", "-o", directory.at("busy")});
  EXPECT_NE(local.errors.find("another process writes its results there"), std::string::npos) << local.errors;
}

TEST(ForecastCommand, WritesWhatTheEndingOfAFileSaysOrNamesThoseThatItKnows) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model");
  write_days(data, 60);
  ASSERT_EQ(run_ingot({"forecast", "fit", data, "--model", "naive", "-o", model}).exit_code, 0);
  const auto write = [&](const char* command, const std::string& output) {
    return run_ingot({"forecast", command, model, data, "-o", output});
  };
  const Outcome printed = write("predict", "-");
  EXPECT_TRUE(printed.output.starts_with("ds,sales,")) << printed.output;
  ASSERT_EQ(write("predict", directory.at("next.CSV")).exit_code, 0);
  EXPECT_EQ(read_file(directory.at("next.CSV")), printed.output);
  ASSERT_EQ(write("predict", directory.at("next.json")).exit_code, 0);
  EXPECT_EQ(read_file(directory.at("next.json")),
            run_ingot({"forecast", "predict", model, data, "--json"}).output);
  for (const auto& [command, name, known] :
       {std::array{"predict", "next.parquet", "end the name in .csv or .json"},
        std::array{"plot", "page.png", "end the name in .html or .htm"}}) {
    const Outcome refused = write(command, directory.at(name));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.errors.find(known), std::string::npos) << refused.errors;
    EXPECT_FALSE(std::filesystem::exists(directory.at(name)));
  }
  EXPECT_TRUE(write("plot", "-").output.starts_with("<!doctype html>")) << "and nothing else";
}

TEST(ForecastCommand, AModelThatIsNotKnownIsToldAllThatAre) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv");
  write_days(data, 60);
  const auto errors = [&](const char* command, const char* model) {
    const Outcome outcome = run_ingot({"forecast", command, data, "--model", model});
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.errors;
  };
  for (const char* command : {"fit", "compare"}) {
    const std::string problem = errors(command, "thta");
    for (const char* known : {"dlinear", "ets", "auto", "did you mean 'theta'?"})
      EXPECT_NE(problem.find(known), std::string::npos) << problem;
  }
  EXPECT_NE(errors("compare", "auto").find("the last rows, which the comparison tests on"),
            std::string::npos);
  std::ofstream(directory.at("ets.yaml")) << "data: " << data << "\nmodel: ets\nhorizon: 5\n";
  const Outcome fitted =
      run_ingot({"forecast", "fit", "--config", directory.at("ets.yaml"), "-o", directory.at("ets")});
  EXPECT_NE(fitted.output.find("ets with season 1, 5 rows ahead"), std::string::npos) << fitted.errors;
}

TEST(ForecastCommand, DoesNotWriteOverTheTableItReads) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model");
  write_days(data, 400);
  ASSERT_EQ(run_ingot({"forecast", "fit", data, "--horizon", "14", "--lookback", "28", "--epochs", "1", "-o",
                       model})
                .exit_code,
            0);
  const std::string before = read_file(data);
  for (const std::string command : {"predict", "plot"}) {
    const Outcome refused = run_ingot({"forecast", command, model, data, "-o", directory.at("./days.csv")});
    EXPECT_NE(refused.exit_code, 0) << command;
    EXPECT_NE(refused.errors.find("is the table itself"), std::string::npos) << refused.errors;
  }
  EXPECT_EQ(read_file(data), before);
}

TEST(ForecastCommand, RunsOnTheDeviceThatIsNamed) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model"),
                    config = directory.at("fit.yaml");
  write_days(data, 400);
  write_file_atomically(config, "device: tpu\nhorizon: 14\nlookback: 28\nepochs: 1\n");
  const std::vector<std::string> fit{"forecast", "fit", data, "--config", config, "-o", model, "--json"};
  const auto with_device = [](std::vector<std::string> words, const std::string& device) {
    words.insert(words.end(), {"--device", device});
    return run_ingot(words);
  };
  EXPECT_EQ(run_ingot(fit).exit_code, 2);
  const Outcome fitted = with_device(fit, "cpu");  // the option goes before the file
  ASSERT_EQ(fitted.exit_code, 0) << fitted.errors;
  EXPECT_EQ(parse_json<nlohmann::json>(fitted.output, "fit")["device"], "cpu");
  for (const std::string command : {"predict", "evaluate", "plot"}) {
    std::vector<std::string> words{"forecast", command, model, data, "--json"};
    if (command == "plot") words.insert(words.end(), {"-o", directory.at("page.html")});
    const Outcome here = with_device(words, "cpu"), nowhere = with_device(words, "cuda:99");
    EXPECT_EQ(here.exit_code, 0) << command << here.errors;
    EXPECT_NE(nowhere.exit_code, 0) << command;
    EXPECT_NE(nowhere.errors.find("cuda:99"), std::string::npos) << command << nowhere.errors;
  }
}

TEST(ForecastCommand, FitsPredictsEvaluatesPlotsAndCompares) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model");
  write_days(data, 400);
  const Outcome fitted = run_ingot(
      {"forecast", "fit", data, "--horizon", "14", "--lookback", "28", "--epochs", "3", "-o", model});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.errors;
  EXPECT_NE(fitted.output.find("400 rows"), std::string::npos);
  EXPECT_NE(fitted.output.find("epoch   3"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(model + "/report.html"));

  const Outcome predicted = run_ingot({"forecast", "predict", model, data, "--level", "90"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.errors;
  EXPECT_TRUE(predicted.output.starts_with("ds,sales,sales-lo-90,sales-hi-90\n400,")) << predicted.output;

  const Outcome evaluated = run_ingot({"forecast", "evaluate", model, data, "--season", "7", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.errors;
  EXPECT_NE(evaluated.output.find("\"seasonal naive\""), std::string::npos);

  const std::string page = directory.at("page.html");
  ASSERT_EQ(run_ingot({"forecast", "plot", model, data, "--hold-out", "14", "-o", page}).exit_code, 0);
  EXPECT_NE(read_file(page).find("\"90 % interval\""), std::string::npos);

  const Outcome compared =
      run_ingot({"forecast", "compare", data, "--model", "dlinear", "--model", "nlinear", "--horizon", "14",
                 "--lookback", "28", "--epochs", "2", "-o", directory.at("both")});
  ASSERT_EQ(compared.exit_code, 0) << compared.errors;
  EXPECT_NE(compared.output.find("ETS"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(directory.at("both/nlinear/model.safetensors")));
}

TEST(ForecastCommand, ReplacesNoModelOfAnEarlierCallUnlessToldTo) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model");
  write_days(data, 200);
  const auto fit = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"forecast", "fit", data, "--model", "theta", "-o", model};
    words.insert(words.end(), more.begin(), more.end());
    return run_ingot(words);
  };
  ASSERT_EQ(fit({}).exit_code, 0);
  const std::string before = read_file(model + "/config.json");
  const Outcome again = fit({"--horizon", "3"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.errors.find("is there already; --overwrite replaces"), std::string::npos) << again.errors;
  EXPECT_EQ(run_ingot({"forecast", "fit", data, "-o", model}).exit_code, 2);
  EXPECT_EQ(read_file(model + "/config.json"), before);
  EXPECT_EQ(fit({"--horizon", "3", "--overwrite"}).exit_code, 0);
  EXPECT_NE(read_file(model + "/config.json"), before);
}

TEST(ForecastCommand, ForecastsAsManyRowsAsAShortTableHoldsAndWritesQuantiles) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model");
  write_days(data, 60);
  const Outcome fitted = run_ingot({"forecast", "fit", data, "--epochs", "1", "-o", model});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.errors;
  EXPECT_NE(fitted.output.find("dlinear forecasts 6 rows, as the table is too short for 96"),
            std::string::npos)
      << fitted.output;
  const Outcome predicted = run_ingot({"forecast", "predict", model, data, "--quantiles", "0.5"});
  EXPECT_TRUE(predicted.output.starts_with("ds,sales,sales-q-0.5\n60,"))
      << predicted.output << predicted.errors;
  const Outcome wrong = run_ingot({"forecast", "predict", model, data, "--quantiles", "50"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.errors.find("--quantiles: '50' is not a quantile"), std::string::npos) << wrong.errors;
}

TEST(ForecastCommand, ReadsPromotionsAndHolidaysAhead) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("shop.csv"), model = directory.at("model");
  std::ofstream file(data), holidays(directory.at("h.csv"));
  file << "date,sales,promo\n";
  for (int i = 0; i < 150; ++i)
    file << 1704067200 + i * 86400 << "," << (i < 140 ? std::to_string(i % 5 + i % 3) : "") << "," << i % 3
         << "\n";
  file.close();
  holidays << "date\n2024-01-01\n2024-12-25\n";
  holidays.close();
  const Outcome fitted = run_ingot({"forecast", "fit", data, "--model", "ets", "--future", "promo",
                                    "--holidays", directory.at("h.csv"), "--frequency", "D", "--fill",
                                    "forward", "--horizon", "7", "-o", model});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.errors;
  EXPECT_EQ(run_ingot({"forecast", "predict", model, data}).exit_code, 0);
  const Outcome short_plan = run_ingot(
      {"forecast", "fit", data, "--model", "croston", "--future", "promo", "-o", directory.at("c")});
  EXPECT_NE(short_plan.errors.find("future: has no effect on croston"), std::string::npos)
      << short_plan.errors;
}

TEST(ForecastCommand, EndsWithOneClearErrorAndWritesNothing) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model");
  write_days(data, 60);
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"forecast", "fit", data, "-o", model};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_ingot(words);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(model));
    return outcome.errors;
  };
  EXPECT_NE(refused({"--horizon", "0"}).find("horizon: must be at least 1, got 0"), std::string::npos);
  EXPECT_NE(refused({"--horizon", "96"}).find("is too short"), std::string::npos);
  EXPECT_NE(refused({"--model", "dlinaer"}).find("did you mean 'dlinear'"), std::string::npos);
  EXPECT_NE(refused({"--set", "d_modl=3"}).find("d_modl"), std::string::npos);
  EXPECT_NE(refused({"--horizon", "0"}).find("(--horizon)"), std::string::npos);
  EXPECT_NE(refused({"--horizon", ""}).find("--horizon: is empty"), std::string::npos);
}

TEST(ForecastCommand, TakesItsDataFromAConfigurationAndSaysWhatHasNoEffect) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), config = directory.at("fit.yaml"),
                    model = directory.at("model");
  write_days(data, 300);
  write_file_atomically(config, "data: " + data + "\nhorizon: 7\nlookback: 14\nepochs: 1\nd_model: 32\n");
  const Outcome fitted = run_ingot({"forecast", "fit", "--config", config, "-o", model});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.errors;
  EXPECT_NE(fitted.errors.find("d_model has no effect on dlinear"), std::string::npos) << fitted.errors;
  EXPECT_NE(run_ingot({"forecast", "fit"}).errors.find("data: is missing"), std::string::npos);
  const Outcome twice = run_ingot({"forecast", "predict", model, data, "-o", "a", "-o", "b"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_NE(twice.errors.find("--output is given more than once"), std::string::npos) << twice.errors;
}

TEST(ForecastCommand, PrintsForecastsAndFoldsAsJson) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model");
  write_days(data, 300);
  ASSERT_EQ(run_ingot({"forecast", "fit", data, "--horizon", "7", "--lookback", "14", "--epochs", "1", "-o",
                       model, "--json"})
                .exit_code,
            0);
  const Outcome predicted = run_ingot({"forecast", "predict", model, data, "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.errors;
  const auto forecast = parse_json<nlohmann::json>(predicted.output, "predict");
  EXPECT_EQ(forecast["series"][0]["times"][0], "300");
  EXPECT_EQ(forecast["series"][0]["targets"]["sales"]["forecast"].size(), 7U);
  EXPECT_EQ(forecast["series"][0]["targets"]["sales"]["80"]["low"].size(), 7U);

  const Outcome folds = run_ingot({"forecast", "evaluate", model, data, "--folds", "2", "--json"});
  ASSERT_EQ(folds.exit_code, 0) << folds.errors;
  const auto validated = parse_json<nlohmann::json>(folds.output, "evaluate");
  EXPECT_EQ(validated["folds"][1]["rows"], 293);
  EXPECT_EQ(validated["mean"].size(), 4U);
  const Outcome table = run_ingot({"forecast", "evaluate", model, data, "--folds", "2"});
  EXPECT_NE(table.output.find("\nmean "), std::string::npos) << table.output;

  std::filesystem::remove(model + "/calibration.safetensors");
  EXPECT_NE(
      run_ingot({"forecast", "predict", model, data}).errors.find("calibration.safetensors: cannot open"),
      std::string::npos);
}

TEST(ForecastCommand, TakesColumnsByTheirNamesWhateverYamlWouldMakeOfThem) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("odd.csv");
  std::ofstream file(data);
  file << "ds,Sales: net,null,#x\n";
  for (int i = 0; i < 200; ++i)
    file << i << "," << std::sin(i) << "," << std::cos(i) << "," << std::sin(2 * i) << "\n";
  file.close();
  const std::string model = directory.at("model");
  const Outcome fitted = run_ingot({"forecast", "fit", data, "--target", "Sales: net,null", "--columns", "#x",
                                    "--horizon", "4", "--lookback", "8", "--epochs", "1", "-o", model});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.errors;
  const Outcome predicted = run_ingot({"forecast", "predict", model, data, "--level", "80"});
  EXPECT_TRUE(predicted.output.starts_with(
      "ds,Sales: net,Sales: net-lo-80,Sales: net-hi-80,null,null-lo-80,null-hi-80\n"))
      << predicted.output << predicted.errors;
}

TEST(ForecastCommand, ATableShorterThanThePaperReadsHasAShorterLookbackUnlessOneIsAskedFor) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model");
  write_days(data, 200);
  const std::vector<std::string> words{"forecast", "fit", data, "--horizon", "7",
                                       "--epochs", "1",   "-o", model,       "--overwrite"};
  const Outcome fitted = run_ingot(words);
  ASSERT_EQ(fitted.exit_code, 0) << fitted.errors;
  EXPECT_NE(fitted.output.find("dlinear reads 44 rows, as the table is too short for the 336 of its paper"),
            std::string::npos)
      << fitted.output;
  std::vector<std::string> more = words;
  more.emplace_back("--json");
  const Outcome json = run_ingot(more);
  EXPECT_EQ(parse_json<nlohmann::json>(json.output, "output").at("lookback"), 44);
  more.insert(more.end(), {"--lookback", "300"});
  const Outcome refused = run_ingot(more);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("choose a shorter --lookback (44 leaves 90 windows"), std::string::npos)
      << refused.errors;
}

TEST(ForecastCommand, PatchesFollowALookbackThatIsShorterThanThePapers) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv");
  write_days(data, 60);
  const Outcome fitted = run_ingot({"forecast", "fit", data, "--model", "patchtst", "--horizon", "3",
                                    "--epochs", "1", "-o", directory.at("model")});
  EXPECT_EQ(fitted.exit_code, 0) << fitted.errors;
  const Outcome asked = run_ingot({"forecast", "fit", data, "--model", "patchtst", "--horizon", "3", "--set",
                                   "patch_length=40", "-o", directory.at("other")});
  EXPECT_NE(asked.errors.find("patch_length: 40 is longer than"), std::string::npos) << asked.errors;
}

TEST(ForecastCommand, NamesTheModelsDirectoryByTheConfigurationsModel) {
  const test::TemporaryDirectory directory;
  write_days(directory.at("days.csv"), 300);
  std::ofstream(directory.at("fit.yaml")) << "model: nlinear\nhorizon: 7\nlookback: 14\nepochs: 1\n";
  const Outcome fitted = run_ingot(
      {"forecast", "fit", directory.at("days.csv"), "--config", directory.at("fit.yaml"), "--json"});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.errors;
  EXPECT_NE(fitted.output.find("\"model\": \"days-nlinear\""), std::string::npos) << fitted.output;
  std::filesystem::remove_all("days-nlinear");
}

// kill -9 between steps, in the middle of a file, around the rename that makes a checkpoint, and while the
// model itself is written.
TEST(ForecastCommand, AFitKilledAtAnyMomentAndResumedEndsWithTheSameBits) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv");
  write_days(data, 300);
  const auto command = [&](const std::string& name, bool resume) {
    std::vector<std::string> words{
        "forecast", "fit",        data, "--model", "nlinear",      "--horizon", "7",  "--epochs",
        "2",        "--lookback", "14", "--json",  "--save-every", "0",         "-o", directory.at(name)};
    words.insert(words.end(), {"--set", "min_epoch_steps=1"});
    if (resume) words.emplace_back("--resume");
    return words;
  };
  const auto model = [&](const std::string& name) {
    return read_file(directory.at(name) + "/model.safetensors");
  };
  ASSERT_EQ(run_ingot(command("whole", false)).exit_code, 0);
  const std::vector<std::string> faults{"crash:train.step:1",
                                        "crash:train.step:9",
                                        "crash:write:1500",
                                        "crash:write:9000",
                                        "crash:file.before_rename:6",
                                        "crash:directory.before_rename:1",
                                        "crash:directory.before_rename:4",
                                        "crash:directory.after_rename:3",
                                        "crash:directory.before_rename:13"};
  int run = 0;
  for (const std::string& fault : faults) {
    const std::string name = "killed" + std::to_string(run++);
    EXPECT_EQ(run_ingot(command(name, false), {"INGOT_FAULT=" + fault}).exit_code, 128 + SIGKILL) << fault;
    const Outcome resumed = run_ingot(command(name, true));
    ASSERT_EQ(resumed.exit_code, 0) << fault << ": " << resumed.errors;
    EXPECT_EQ(model(name), model("whole")) << fault;
    EXPECT_FALSE(std::filesystem::exists(directory.at(name) + "-unfinished")) << fault;
  }
}

TEST(ForecastCommand, GoesOnFromAModelInItsPlace) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model");
  write_days(data, 300);
  ASSERT_EQ(run_ingot({"forecast", "fit", data, "--horizon", "7", "--lookback", "14", "--epochs", "2",
                       "--set", "min_epoch_steps=1", "-o", model})
                .exit_code,
            0);
  const auto losses = [](const Outcome& o) {
    return parse_json<nlohmann::json>(o.output, "output").at("epochs").at(0).at("train_loss").get<double>();
  };
  const std::vector<std::string> again{
      "forecast",          "fit", data,  "--from", model,        "--epochs", "1", "--set",
      "min_epoch_steps=1", "-o",  model, "--json", "--overwrite"};
  const Outcome second = run_ingot(again), third = run_ingot(again);
  ASSERT_EQ(third.exit_code, 0) << third.errors;
  EXPECT_LT(losses(third), losses(second));
  const Outcome wrong =
      run_ingot({"forecast", "fit", data, "--from", model, "--horizon", "9", "-o", model, "--overwrite"});
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_NE(wrong.errors.find("does not hold this dlinear model's parameters"), std::string::npos)
      << wrong.errors;
}

// The epoch that runs ends, the best weights are written, and what was saved stays.
TEST(ForecastCommand, AFitThatCtrlCEndedIsAModelAndCanBeResumed) {
  const test::TemporaryDirectory directory;
  const std::string data = directory.at("days.csv"), model = directory.at("model");
  write_days(data, 300);
  const std::vector<std::string> words{"forecast",     "fit",   data,         "--model", "nlinear",
                                       "--horizon",    "7",     "--lookback", "14",      "--epochs",
                                       "40",           "--set", "patience=0", "--set",   "min_epoch_steps=1",
                                       "--save-every", "0",     "-o",         model};
  bool sent = false;
  const Outcome stopped = run_ingot_on_terminal(words, [&](const std::string& output, pid_t child, int) {
    if (child == 0 || sent || output.find("epoch   2") == std::string::npos) return;
    sent = ::kill(child, SIGINT) == 0;
  });
  EXPECT_EQ(stopped.exit_code, 128 + SIGINT) << stopped.output;
  EXPECT_NE(stopped.output.find("stopped after "), std::string::npos) << stopped.output;
  EXPECT_NE(stopped.output.find("with --resume goes on"), std::string::npos) << stopped.output;
  EXPECT_TRUE(std::filesystem::exists(model + "/model.safetensors"));
  ASSERT_TRUE(std::filesystem::exists(model + "-unfinished"));
  EXPECT_NE(run_ingot(words).errors.find("--resume"), std::string::npos);
  std::vector<std::string> more = words;
  more.emplace_back("--resume");
  const Outcome resumed = run_ingot(more);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("going on after batch"), std::string::npos);
  EXPECT_NE(resumed.output.find("epoch  40"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(model + "-unfinished"));
}

}  // namespace
}  // namespace ingot::testing
