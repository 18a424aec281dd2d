#include "ingot/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/checksums.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/log.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/language/weight_map.h"
#include "ingot/ops/cast.h"
#include "ingot/text/tokenizer.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr const char* kState = "trainer_state.json";

}  // namespace

std::string checkpoint_path(const std::string& output_dir, std::int64_t step) {
  return fmt::format("{}/{}{:06}", output_dir, kPrefix, step);
}

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint,
                     const text::Tokenizer& tokenizer) {
  make_directories(fs::path(path).parent_path().string());
  require_disk_space(path, nbytes(checkpoint.weights) + nbytes(checkpoint.optimizer) + nbytes(checkpoint.ema),
                     "a checkpoint");
  AtomicDirectory directory(path);
  write_language_model(directory.path(), checkpoint.config, checkpoint.weights);
  tokenizer.save_directory(directory.path());
  write_safetensors(directory.file("optimizer.safetensors"), checkpoint.optimizer);
  if (!checkpoint.ema.empty()) write_safetensors(directory.file("ema.safetensors"), checkpoint.ema);
  write_file_atomically(directory.file(kState), checkpoint.trainer_state);
  write_checksums(directory.path());
  directory.commit();
}

void verify_checkpoint(const std::string& path) {
  INGOT_CHECK(fs::is_directory(path), IoError(path, "is no directory"));
  for (const char* needed : {kChecksumsFile, kState}) {
    INGOT_CHECK(
        fs::exists(path + "/" + needed),
        FormatError(path, -1, needed,
                    "is missing: this is no checkpoint of `ingot train`, or an unfinished one. To start "
                    "from its weights alone, give it as `model:`"));
  }
  verify_checksums(path);
}

Checkpoint load_checkpoint(const std::string& path) {
  verify_checkpoint(path);
  Checkpoint checkpoint;
  checkpoint.config = LanguageConfig::from_json(read_file(path + "/config.json"), path + "/config.json");
  const std::unique_ptr<WeightSource> weights = open_weights(path);
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : weights->tensors()) tensors[info.name] = weights->load_tensor(info.name);
  for (auto& [name, tensor] : import_tensors(language_weight_map(checkpoint.config), tensors)) {
    checkpoint.weights[name] = clone(tensor);
  }
  checkpoint.optimizer = read_safetensors(path + "/optimizer.safetensors");
  if (fs::exists(path + "/ema.safetensors")) checkpoint.ema = read_safetensors(path + "/ema.safetensors");
  checkpoint.trainer_state = read_file(path + "/" + kState);
  return checkpoint;
}

std::vector<CheckpointEntry> list_checkpoints(const std::string& output_dir) {
  std::vector<CheckpointEntry> entries;
  if (!fs::is_directory(output_dir)) return entries;
  for (const auto& entry : fs::directory_iterator(output_dir)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !entry.is_directory()) continue;
    const char* begin = name.data() + kPrefix.size();
    const char* end = name.data() + name.size();
    std::int64_t step = 0;
    const auto parsed = std::from_chars(begin, end, step);
    if (parsed.ec == std::errc{} && parsed.ptr == end) entries.push_back({step, entry.path().string()});
  }
  std::ranges::sort(entries, {}, &CheckpointEntry::step);
  return entries;
}

std::optional<CheckpointEntry> find_latest_checkpoint(const std::string& output_dir) {
  for (const std::string& swept : sweep_partial(output_dir)) {
    log(LogLevel::info, "ingot::checkpoint", "swept what an interrupted save left: " + swept);
  }
  std::vector<CheckpointEntry> entries = list_checkpoints(output_dir);
  std::string problems;
  while (!entries.empty()) {
    try {
      verify_checkpoint(entries.back().path);
      return entries.back();
    } catch (const Error& error) {
      log(LogLevel::warn, "ingot::checkpoint",
          fmt::format("passing over a damaged checkpoint: {}", error.what()));
      problems += fmt::format("\n  {}", error.what());
      entries.pop_back();
    }
  }
  INGOT_CHECK(problems.empty(),
              IoError(output_dir, "every checkpoint is damaged; move them away to start anew:" + problems));
  return std::nullopt;
}

void prune_checkpoints(const std::string& output_dir, std::int64_t keep, std::int64_t best) {
  const std::vector<CheckpointEntry> entries = list_checkpoints(output_dir);
  const auto count = static_cast<std::int64_t>(entries.size());
  for (std::int64_t i = 0; i < count - keep; ++i) {
    const CheckpointEntry& entry = entries[static_cast<std::size_t>(i)];
    if (entry.step == best) continue;
    remove_with_checksums(entry.path);
  }
}

}  // namespace ingot
