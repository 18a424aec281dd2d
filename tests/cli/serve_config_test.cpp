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

// A name of a key, in the first item of a list.
std::string numbered(const std::string& key, const std::string& name) {
  constexpr std::string_view kItem = "models.N.";
  if (!key.starts_with(kItem)) return name;
  return "models.0." + (name == key ? name.substr(kItem.size()) : name);
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
      if (key.key == "model" || key.key == "models.N.path") continue;  // without a default
      Config config = Config::parse("{model: m, models: [{path: n}]}");
      config.set(numbered(key.key, name) + "=null");
      EXPECT_NO_THROW(static_cast<void>(read_serve_config(config))) << name;
    }
  }
}

TEST(ServeKeys, SetWhatTheyName) {
  const ServeConfig c =
      parsed("{model: m, port: 9000, api_key: 123, named_adapters: [a=b], context: 64, prefix_cache: false}");
  EXPECT_EQ(c.model.run.model, "m");
  EXPECT_EQ(c.port, 9000);
  EXPECT_EQ(c.api_keys, std::vector<std::string>{"123"});
  EXPECT_EQ(c.model.named_adapters, std::vector<std::string>{"a=b"});
  EXPECT_EQ(c.model.run.context, 64);
  EXPECT_FALSE(c.prefix_cache);
}

TEST(ServeKeys, ModelsHaveTheirOwnSettingsAndThoseOfAllForTheRest) {
  const ServeConfig c = parsed(
      "{context: 64, adapters: [x], models: [{path: a, name: one}, {path: b, format: q8_0, context: 32}]}");
  EXPECT_EQ(c.model.run.model, "a");
  EXPECT_EQ(c.model.names, std::vector<std::string>{"one"});
  EXPECT_TRUE(c.model.run.adapters.empty());
  EXPECT_EQ(c.model.run.context, 64);
  ASSERT_EQ(c.more_models.size(), 1U);
  EXPECT_EQ(c.more_models[0].run.model, "b");
  EXPECT_EQ(c.more_models[0].run.format, "q8_0");
  EXPECT_EQ(c.more_models[0].run.context, 32);
  EXPECT_NE(problem_of("{models: [{path: a}, {name: b}]}").find("models.1.path"), std::string::npos);
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
