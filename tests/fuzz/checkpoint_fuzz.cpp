// A checkpoint of a training: SHA256SUMS, a record separator, trainer_state.json, another,
// optimizer.safetensors. Where SHA256SUMS is empty, it is made: a fuzzer does not guess digests, and would
// never get beyond them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/temporary_files.h"

#include "ingot/base/checksums.h"
#include "ingot/base/error.h"
#include "ingot/train/checkpoint_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ingot::test::FuzzDirectory kDirectory;
  const std::string checkpoint = "checkpoint-000001";
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto next = [&] {
    const std::string_view content = rest.substr(0, rest.find('\x1E'));
    rest.remove_prefix(std::min(rest.size(), content.size() + 1));
    return content;
  };
  const std::string_view sums = next();
  kDirectory.write(checkpoint + "/" + ingot::kChecksumsFile, sums);
  kDirectory.write(checkpoint + "/trainer_state.json", next());
  kDirectory.write(checkpoint + "/optimizer.safetensors", rest);
  const std::string path = kDirectory.path() + "/" + checkpoint;
  try {
    if (sums.empty()) ingot::write_checksums(path);
    const ingot::SavedCheckpoint saved = ingot::CheckpointDirectory(kDirectory.path()).open(path);
    [[maybe_unused]] const auto tensors = saved.shards("optimizer");
  } catch (const ingot::Error&) {
  }
  return 0;
}
