// Games in the simulator of the PyPI package mjai, where there is a Python that has it.
#include <cstdlib>
#include <string>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::testing {
namespace {

/// INGOT_TEST_PYTHON, or the system's; empty where it has no such package.
std::string python_with_mjai() {
  const char* given = std::getenv("INGOT_TEST_PYTHON");
  const std::string python = given == nullptr ? "python3" : given;
  const std::string check = python + " -c 'import mjai.engine, mjai.mlibriichi' 2>/dev/null";
  return std::system(check.c_str()) == 0 ? python : "";
}

TEST(MjaiSimulator, TakesEveryAnswerOfAGame) {
  const std::string python = python_with_mjai();
  if (python.empty()) GTEST_SKIP() << "no Python with the package mjai; INGOT_TEST_PYTHON can name one";
  const test::TemporaryDirectory folder;
  const std::string out = folder.at("out"), errors = folder.at("errors");
  const std::string command = python + " -B " + test::source_dir() +
                              "/tools/compare/mjai_simulator.py " INGOT_BINARY
                              " --player rule-based --games 1 --json >" +
                              out + " 2>" + errors;
  EXPECT_EQ(std::system(command.c_str()), 0) << read_file(errors);
  const auto report = parse_json<nlohmann::json>(read_file(out), out);
  EXPECT_TRUE(report.at("refused").empty()) << report.at("refused");
  EXPECT_GT(report.at("answers").get<int>(), 60);
}

}  // namespace
}  // namespace ingot::testing
