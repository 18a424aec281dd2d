#include <fstream>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::testing {
namespace {

class GraphCommand : public ::testing::Test {
 protected:
  // Of a model that is not there yet: the configuration of its training is enough.
  void SetUp() override {
    std::ofstream(config_)
        << "from_scratch: true\n"
           "architecture: {hidden_size: 24, num_hidden_layers: 3, num_attention_heads: 2}\n"
           "vocab_size: 280\ndatasets: [{path: text.txt}]\noutput_dir: out\n";
  }
  const test::TemporaryDirectory folder_;
  const std::string config_ = folder_.at("train.yaml");
};

TEST_F(GraphCommand, PrintsJsonWithModulesOpsAndTheirCost) {
  const Outcome outcome = run_ingot({"graph", config_, "--json", "--backward", "--sequence", "8"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto json = parse_json<nlohmann::json>(outcome.output, "the graph");
  EXPECT_EQ(json.at("input"), "tokens [1, 8]");
  EXPECT_GT(json.at("model").at("flops_backward"), json.at("model").at("flops_forward"));
}

TEST_F(GraphCommand, WritesAPageADrawingOrJsonByTheEndingOfTheFile) {
  for (const char* name : {"graph.html", "graph.dot", "graph.json"}) {
    const Outcome outcome = run_ingot({"graph", config_, "-o", folder_.at(name), "--sequence", "8"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("parameters"), std::string::npos);
  }
  EXPECT_TRUE(read_file(folder_.at("graph.html")).starts_with("<!doctype html>"));
  EXPECT_TRUE(read_file(folder_.at("graph.dot")).starts_with("digraph model {"));
  EXPECT_TRUE(parse_json<nlohmann::json>(read_file(folder_.at("graph.json")), "the file").is_object());
}

TEST_F(GraphCommand, ReadsAConfigurationFromStandardInputAndPrintsJson) {
  const Outcome piped = run_ingot_with_input({"graph", "-", "-o", "-"}, read_file(config_));
  EXPECT_EQ(piped.output, run_ingot({"graph", config_, "--json"}).output) << piped.errors;
}

TEST_F(GraphCommand, NamesWhatItCannotDo) {
  const auto problem = [](const std::vector<std::string>& words) {
    const Outcome outcome = run_ingot(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
    return outcome.errors;
  };
  EXPECT_NE(problem({"graph", config_}).find("-o graph.html"), std::string::npos);
  EXPECT_NE(problem({"graph", config_, "-o", folder_.at("graph.svg")}).find(".html, .dot or .json"),
            std::string::npos);
  EXPECT_NE(problem({"graph", config_, "--json", "--batch", "0"}).find("batch"), std::string::npos);
  EXPECT_NE(problem({"graph", folder_.path(), "--json"}).find("is not a model"), std::string::npos);
}

}  // namespace
}  // namespace ingot::testing
