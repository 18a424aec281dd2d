#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::test {

/// A tiny random model of tests/models/goldens as a directory of sentence-transformers; its words are w5 to
/// w66.
struct SentenceDirectory {
  TemporaryDirectory parent;
  std::string path = parent.at("sentences");

  explicit SentenceDirectory(const std::string& golden = "bert_legacy") {
    std::filesystem::create_directories(path + "/1_Pooling");
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(test::source_dir() + "/tests/models/goldens/" + golden + "/" + file,
                                 path + "/" + file);
    }
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 5; i < 67; ++i) vocabulary += "w" + std::to_string(i) + "\n";
    write_file_atomically(path + "/vocab.txt", vocabulary);
    write_file_atomically(path + "/tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
    pooling("pooling_mode_mean_tokens");
    modules("Normalize");
  }

  void pooling(const std::string& flag) const {
    write_file_atomically(path + "/1_Pooling/config.json", "{\"" + flag + "\": true}");
  }
  void modules(const std::string& last) const {
    nlohmann::json list;
    for (const auto& [type, place] :
         {std::pair<std::string, std::string>{"Transformer", ""}, {"Pooling", "1_Pooling"}, {last, "2"}}) {
      list.push_back({{"type", "sentence_transformers.models." + type}, {"path", place}});
    }
    write_file_atomically(path + "/modules.json", dump_json(list));
  }
};

}  // namespace ingot::test
