#include "ingot/train/language/train_keys.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"

namespace ingot {
namespace {

std::vector<ConfigKey> all_keys() {
  std::vector<ConfigKey> keys;
  for (const ConfigSection& section : train_reference())
    keys.insert(keys.end(), section.keys.begin(), section.keys.end());
  return keys;
}

std::string numbered(std::string path) {
  const std::size_t at = path.find(".N.");
  if (at != std::string::npos) path.replace(at, 3, ".0.");
  return path;
}

constexpr const char* kFromScratch = R"(
from_scratch: true
architecture: {hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 2}
datasets: [{path: text.txt}]
)";
constexpr const char* kAdapter = R"(
base_model: model
adapter: lora
datasets: [{path: chats.jsonl, type: chat_template}]
)";

// Null asks for the default, so that a key that nothing reads is the only thing an error can be about.
TEST(TrainReference, EveryKeyThatItNamesIsReadUnderEachOfItsNames) {
  for (const ConfigKey& key : all_keys()) {
    std::vector<std::string> names{key.key};
    for (const std::string& alias : key.aliases)
      names.push_back(key.key.substr(0, key.key.rfind('.') + 1) + alias);
    for (const std::string& name : names) {
      if (key.default_value.starts_with("required") && name == key.key) continue;
      std::string failures;
      bool read = false;
      for (const char* yaml :
           {kFromScratch, kAdapter, "{rl: dpo, model: m, datasets: [{path: x}]}",
            "{rl: orpo, model: m, datasets: [{path: x}]}", "{rl: simpo, model: m, datasets: [{path: x}]}",
            "{rl: kto, model: m, datasets: [{path: x}]}",
            "{from_scratch: true, architecture: {model_type: qwen3_moe, hidden_size: 64, "
            "num_hidden_layers: 1, num_attention_heads: 2}, datasets: [{path: x}]}"}) {
        Config config = Config::parse(yaml);
        config.set(numbered(name) + "=null");
        try {
          static_cast<void>(read_train_config(config));
          read = true;
        } catch (const InvalidConfig& error) {
          failures += std::string("\n") + error.what();
        }
      }
      EXPECT_TRUE(read) << name << failures;
    }
  }
}

TEST(TrainReference, NamesEveryKeyThatARunIsDescribedBy) {
  std::set<std::string> known;
  for (const ConfigKey& key : all_keys()) known.insert(numbered(key.key));
  // Two ways to say what another key says, and a section with keys of its own.
  known.insert({"lora", "load_in_4bit", "load_in_8bit", "datasets.0.trust_remote_code"});
  for (const char* yaml : {kFromScratch, kAdapter, "{rl: dpo, model: m, datasets: [{path: x}]}"}) {
    Config config = Config::parse(yaml);
    static_cast<void>(read_train_config(config));
    for (const auto& [path, value, given] : config.effective())
      EXPECT_TRUE(known.contains(path)) << path << " is not in train_reference()";
  }
}

TEST(TrainReference, SaysWhatEachKeyIs) {
  for (const ConfigKey& key : all_keys()) {
    EXPECT_FALSE(key.kind.empty()) << key.key;
    EXPECT_TRUE(key.doc.ends_with(".") || key.doc.ends_with("...")) << key.key << ": " << key.doc;
  }
}

}  // namespace
}  // namespace ingot
