#include <fstream>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::testing {
namespace {

class WhyCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream text(folder_.at("text.txt"));
    for (int i = 0; i < 100; ++i) text << "Line " << i << " comes before line " << i + 1 << ".\n";
    std::ofstream(folder_.at("train.yaml"))
        << "from_scratch: true\n"
           "architecture: {hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 2}\n"
           "vocab_size: 280\nsequence_len: 16\nper_device_train_batch_size: 2\n"
           "save_steps: 0\nreport_to: [none]\n"
        << "datasets: [{path: " << folder_.at("text.txt") << "}]\noutput_dir: " << run_ << "\n";
  }
  Outcome train(const std::vector<std::string>& settings) const {
    std::vector<std::string> words{"train", folder_.at("train.yaml"), "--json"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    return run_ingot(words);
  }
  const test::TemporaryDirectory folder_;
  const std::string run_ = folder_.at("out");
};

TEST_F(WhyCommand, TellsTheOpModuleStepAndRangesBehindTheNanThatEndedATraining) {
  const Outcome training = train({"max_steps=60", "learning_rate=1e25", "lr_scheduler=constant",
                                  "max_grad_norm=0", "detect_anomaly=true"});
  ASSERT_EQ(training.exit_code, 1);
  EXPECT_NE(training.errors.find("ingot why"), std::string::npos) << training.errors;
  const auto file = parse_json<nlohmann::json>(read_file(run_ + "/anomaly.json"), "anomaly.json");
  const auto& last = file.at("ops").back();
  ASSERT_GT(last.at("values").at("not_finite"), 0);
  for (std::size_t i = 0; i + 1 < file.at("ops").size(); ++i)
    EXPECT_EQ(file.at("ops")[i].at("values").at("not_finite"), 0) << "an earlier op is the first, then";
  const Outcome why = run_ingot({"why", run_});
  ASSERT_EQ(why.exit_code, 0) << why.errors;
  EXPECT_NE(why.output.find("Step " + std::to_string(file.at("step").get<int>()) + ":"), std::string::npos);
  EXPECT_NE(why.output.find(last.at("op").get<std::string>() + " in " + last.at("module").get<std::string>()),
            std::string::npos)
      << why.output;
  EXPECT_NE(why.output.find("not finite"), std::string::npos);
  EXPECT_NE(why.output.find("\ninput "), std::string::npos);
  EXPECT_NE(why.output.find(" to "), std::string::npos) << "ranges";
}

TEST_F(WhyCommand, TellsOfTensorsAndGradientsOfARecordedStepAndRecordingChangesNoBit) {
  ASSERT_EQ(train({"max_steps=5"}).exit_code, 0);
  const std::string weights = read_file(run_ + "/model/model.safetensors");
  const std::string recorded = folder_.at("recorded");
  const Outcome training = train({"max_steps=5", "record_origins=2", "output_dir=" + recorded});
  ASSERT_EQ(training.exit_code, 0) << training.errors;
  EXPECT_EQ(read_file(recorded + "/model/model.safetensors"), weights);
  EXPECT_EQ(run_ingot({"why", recorded}).output, "Recorded steps: 2, 4\n");
  const Outcome module = run_ingot({"why", recorded, "step=4", "model.layers.1.self_attn.o_proj"});
  ASSERT_EQ(module.exit_code, 0) << module.errors;
  EXPECT_NE(module.output.find("linear in model.layers.1.self_attn.o_proj, step 4: f32["), std::string::npos)
      << module.output;
  EXPECT_NE(module.output.find("linear (backward) in model.layers.1.self_attn.o_proj"), std::string::npos);
  EXPECT_NE(module.output.find("attention in model.layers.1.self_attn"), std::string::npos);
  EXPECT_NE(module.output.find("a parameter or input: f32[24, 24]"), std::string::npos) << module.output;
  const Outcome all = run_ingot({"why", recorded, "step=2"});
  EXPECT_NE(all.output.find("cross_entropy"), std::string::npos) << all.output;
}

TEST_F(WhyCommand, NamesWhatWasNotRecorded) {
  ASSERT_EQ(train({"max_steps=2", "record_origins=2"}).exit_code, 0);
  const auto problem = [](const std::vector<std::string>& words) {
    const Outcome outcome = run_ingot(words);
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.errors;
  };
  EXPECT_NE(problem({"why", run_, "step=3"}).find("3 of"), std::string::npos);
  EXPECT_NE(problem({"why", run_, "step=x"}).find("'step=x' is not a step"), std::string::npos);
  EXPECT_NE(problem({"why", run_, "step=2", "model.layers.7"}).find("model.layers.7"), std::string::npos);
  EXPECT_NE(problem({"why", run_, "model.layers.1"}).find("step: is missing"), std::string::npos);
  EXPECT_NE(problem({"why", folder_.path()}).find("detect_anomaly: true"), std::string::npos);
  EXPECT_NE(problem({"why", folder_.at("none")}).find("is not a directory"), std::string::npos);
  write_file_atomically(run_ + "/anomaly.json", "{\"format\": \"ingot.origins\", \"version\": 1}");
  EXPECT_NE(run_ingot({"why", run_}).errors.find("anomaly.json"), std::string::npos);
}

}  // namespace
}  // namespace ingot::testing
