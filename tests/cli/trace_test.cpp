#include <fstream>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/trace_file.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"

namespace ingot::testing {
namespace {

class TraceOption : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream text(folder_.at("text.txt"));
    for (int i = 0; i < 100; ++i) text << "Line " << i << " comes before line " << i + 1 << ".\n";
    std::ofstream(folder_.at("train.yaml"))
        << "from_scratch: true\n"
           "architecture: {hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 2}\n"
           "vocab_size: 280\nsequence_len: 16\nper_device_train_batch_size: 2\n"
           "max_steps: 3\nsave_steps: 2\nreport_to: [none]\n"
        << "datasets: [{path: " << folder_.at("text.txt") << "}]\noutput_dir: " << folder_.at("out") << "\n";
  }
  const test::TemporaryDirectory folder_;
  const std::string trace_ = folder_.at("trace.json");
};

TEST_F(TraceOption, OfATrainingShowsStepsModulesOpsKernelsDataAndCheckpoints) {
  const Outcome outcome = run_ingot({"train", folder_.at("train.yaml"), "--json", "--trace", trace_});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const test::TraceFile trace = test::read_trace(trace_);
  EXPECT_EQ(trace.count({"step step"}), 3);
  EXPECT_EQ(trace.count({"step step", "work optimizer"}), 3);
  EXPECT_EQ(trace.count({"step step", "work forward", "module model.layers.1", "module self_attn",
                         "module o_proj", "op linear", "kernel gemm"}),
            3);
  EXPECT_GT(trace.count({"step step", "work backward", "module model.layers.1.self_attn.o_proj",
                         "op linear backward", "kernel gemm"}),
            0);
  EXPECT_GT(trace.count({"data make batch"}), 0);
  EXPECT_GT(trace.count({"file write checkpoint"}), 0);
  EXPECT_TRUE(trace.counters.contains("memory cpu (bytes)"));
}

TEST_F(TraceOption, OfAQuantizationShowsEachTensorThatIsWritten) {
  ASSERT_EQ(run_ingot({"train", folder_.at("train.yaml"), "--json"}).exit_code, 0);
  const Outcome outcome = run_ingot(
      {"quantize", folder_.at("out/model"), folder_.at("q.gguf"), "--format", "q8_0", "--trace", trace_});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(test::read_trace(trace_).count({"file blk.1.attn_output.weight"}), 1);
}

TEST_F(TraceOption, OfAStudyShowsItsTrials) {
  std::ofstream(folder_.at("study.yaml")) << "command: 'printf \"{{\\\"value\\\": %s}}\" {x}'\n"
                                             "space: {x: {low: 0, high: 1}}\ntrials: 2\n";
  const Outcome outcome = run_ingot({"tune", folder_.at("study.yaml"), "--json", "--trace", trace_});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(test::read_trace(trace_).count({"work trial"}), 2);
}

TEST_F(TraceOption, NamesAPathThatCannotBeWritten) {
  const Outcome outcome =
      run_ingot({"train", folder_.at("train.yaml"), "--trace", folder_.at("missing/trace.json")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("missing/trace.json"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace ingot::testing
