#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/models/language/config.h"

namespace ingot {

namespace text {
class Tokenizer;
}

/// All that a run needs to go on as if it had never stopped. A checkpoint is a model directory that Hugging
/// Face tools open, plus optimizer.safetensors, ema.safetensors (where weights are averaged),
/// trainer_state.json, and SHA256SUMS over every file (`sha256sum -c` checks it).
struct Checkpoint {
  LanguageConfig config;
  std::map<std::string, Tensor> weights;    ///< our parameter names
  std::map<std::string, Tensor> optimizer;  ///< Optimizer::state()
  std::map<std::string, Tensor> ema;        ///< empty where no average is kept
  std::string trainer_state;                ///< JSON
};

/// Writes `checkpoint` to a directory that appears whole or not at all. Throws IoError (a full disk says how
/// much is missing); what was saved before stays.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint, const text::Tokenizer& tokenizer);

/// Reads a checkpoint whose sums were verified. Weights are copies, free to be trained on.
Checkpoint load_checkpoint(const std::string& path);

/// Throws FormatError naming the first file that is missing, short or changed, and what to do.
void verify_checkpoint(const std::string& path);

/// checkpoint-<step> directories below `output_dir`, oldest first.
struct CheckpointEntry {
  std::int64_t step = 0;
  std::string path;
};
std::vector<CheckpointEntry> list_checkpoints(const std::string& output_dir);
std::string checkpoint_path(const std::string& output_dir, std::int64_t step);

/// The newest checkpoint that verifies. Damaged ones are reported in the log, with what is wrong, and passed
/// over. Leftovers of a crash are swept away first. Nothing where there is none; throws when all are damaged.
std::optional<CheckpointEntry> find_latest_checkpoint(const std::string& output_dir);

/// Deletes all but the newest `keep` and the one of step `best` (-1: none).
void prune_checkpoints(const std::string& output_dir, std::int64_t keep, std::int64_t best);

}  // namespace ingot
