#include "ingot/cli/serve_config.h"

#include <csignal>

#include "tests/cli/process.h"
#include "tests/infer/scripted_model.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot::cli {
namespace {

using ::ingot::testing::Outcome;

std::vector<ConfigKey> serve_config_keys() {
  std::vector<ConfigKey> keys;
  for (const ConfigSection& section : serve_reference())
    keys.insert(keys.end(), section.keys.begin(), section.keys.end());
  return keys;
}

ServeConfig parsed(const std::string& yaml) {
  Config config = Config::parse(yaml);
  return read_serve_config(config);
}

std::string problem_of(const std::string& yaml) {
  try {
    static_cast<void>(parsed(yaml));
  } catch (const InvalidConfig& error) {
    return error.what();
  }
  return {};
}

TEST(ServeKeys, EachIsReadUnderEachOfItsNamesAndStandsInTheGuide) {
  const std::string guide = read_file(test::source_dir() + "/docs/serving.md");
  for (const ConfigKey& key : serve_config_keys()) {
    EXPECT_TRUE(key.doc.ends_with(".")) << key.key;
    EXPECT_NE(guide.find("`" + key.key + "`"), std::string::npos) << key.key << " is not in docs/serving.md";
    std::vector<std::string> names = key.aliases;
    names.push_back(key.key);
    for (const std::string& name : names) {
      if (name == "model") continue;  // without a default
      Config config = Config::parse("{model: m}");
      config.set(name + "=null");
      EXPECT_NO_THROW(static_cast<void>(read_serve_config(config))) << name;
    }
  }
}

TEST(ServeKeys, SetWhatTheyName) {
  const ServeConfig c =
      parsed("{model: m, port: 9000, api_key: 123, named_adapters: [a=b], context: 64, prefix_cache: false}");
  EXPECT_EQ(c.run.model, "m");
  EXPECT_EQ(c.port, 9000);
  EXPECT_EQ(c.api_keys, std::vector<std::string>{"123"});
  EXPECT_EQ(c.named_adapters, std::vector<std::string>{"a=b"});
  EXPECT_EQ(c.run.context, 64);
  EXPECT_FALSE(c.prefix_cache);
}

TEST(ServeKeys, AreRefusedWithTheirPlaceAndWhatWasMeant) {
  EXPECT_NE(problem_of("model: m\nprot: 8000\n").find("port"), std::string::npos);
  const std::string range = problem_of("model: m\nport: 70000\n");
  EXPECT_NE(range.find("port"), std::string::npos) << range;
  EXPECT_NE(range.find("line 2"), std::string::npos) << range;
  EXPECT_NE(problem_of("{model: m, kv_cache: i9}").find("i8"), std::string::npos);
  EXPECT_NE(problem_of("{}").find("model"), std::string::npos);
}

TEST(ServeCommand, OptionsGoOverTheFileAndNameThemselvesWhereTheyAreWrong) {
  const test::TemporaryDirectory folder;
  const std::string model =
      test::write_scripted_model(folder.at("model"), test::script(3 /* <turn> */, "one twz", 4 /* <end> */));
  const std::string file = folder.at("serve.yaml");
  write_file_atomically(file,
                        "model: " + model + "\nport: 0\nnames: [from-file]\ncontext: 100\nthreads: 1\n");
  bool stopped = false;
  const Outcome served = ingot::testing::run_ingot_on_terminal(
      {"serve", "--config", file, "--name", "given"}, [&](const std::string& output, pid_t child, int) {
        if (child == 0 || stopped || output.find("of keys and values.") == std::string::npos) return;
        stopped = true;
        ::kill(child, SIGTERM);
      });
  EXPECT_EQ(served.exit_code, 0) << served.output;
  EXPECT_NE(served.output.find("Serving given at"), std::string::npos) << served.output;
  EXPECT_NE(served.output.find("Context 100"), std::string::npos) << served.output;
  const Outcome wrong = ingot::testing::run_ingot({"serve", "--config", file, "--port", "many"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.errors.find("--port"), std::string::npos) << wrong.errors;
  EXPECT_EQ(ingot::testing::run_ingot({"serve"}).exit_code, 2);
}

TEST(ServeCommand, ListsTheKeysOfItsFile) {
  const Outcome keys = ingot::testing::run_ingot({"serve", "--keys", "prefix"});
  EXPECT_EQ(keys.exit_code, 0);
  EXPECT_NE(keys.output.find("prefix_cache"), std::string::npos);
  EXPECT_EQ(keys.output.find("max_body"), std::string::npos);
}

}  // namespace
}  // namespace ingot::cli
