// What `datasets` writes beside its tables: dataset_dict.json, state.json and the dataset_dict.json of a
// split, each ended by a record separator. An empty one is not there.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "tests/fuzz/temporary_files.h"

#include "ingot/base/error.h"
#include "ingot/data/arrow.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ingot::test::FuzzDirectory kDirectory;
  const std::filesystem::path root = kDirectory.path();
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"dataset_dict.json", "state.json", "train/dataset_dict.json"}) {
    const std::string_view content = rest.substr(0, rest.find('\x1E'));
    if (content.empty()) std::filesystem::remove(root / name);
    if (!content.empty()) kDirectory.write(name, content);
    rest.remove_prefix(std::min(rest.size(), content.size() + 1));
  }
  if (std::filesystem::exists(root / "state.json"))
    kDirectory.write("train/state.json", R"({"_data_files":[{"filename":"a.arrow"}]})");
  for (const char* split : {"", "train", "..", "."}) {
    try {
      if (ingot::data::is_saved_dataset(root)) ingot::data::saved_dataset_files(root, split);
    } catch (const ingot::Error&) {
    }
  }
  return 0;
}
