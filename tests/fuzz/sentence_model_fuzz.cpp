// A directory of sentence-transformers: its files concatenated, each ended by a record separator.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/temporary_files.h"

#include "ingot/base/error.h"
#include "ingot/infer/sentence_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ingot::test::FuzzDirectory kDirectory;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
                           "config_sentence_transformers.json", "2_Dense/config.json"}) {
    const std::string_view content = rest.substr(0, rest.find('\x1E'));
    kDirectory.write(name, content);
    rest.remove_prefix(std::min(rest.size(), content.size() + 1));
  }
  try {
    [[maybe_unused]] const auto config = ingot::SentenceConfig::from_directory(kDirectory.path());
  } catch (const ingot::Error&) {
  }
  return 0;
}
