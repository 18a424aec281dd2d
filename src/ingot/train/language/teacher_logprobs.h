#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ingot/base/files.h"
#include "ingot/core/tensor.h"
#include "ingot/data/loader.h"

namespace ingot {

/// Identifies row `row` of a batch up to its last target: the same sequence in another batch has the same.
std::int64_t sequence_key(const data::Batch& batch, std::int64_t row);
/// How many targets row `row` has.
std::int64_t targets_of_row(const data::Batch& batch, std::int64_t row);
/// Where the targets of a batch on the host are, in its flattened tokens.
std::vector<std::int32_t> target_positions(const data::Batch& batch);

/// What captured log-probabilities are of.
struct CaptureInfo {
  std::int64_t top_k = 0;
  std::int64_t classes = 0;  ///< that the tokens were chosen from
  std::int64_t sequences = 0, targets = 0;
  std::string teacher;
  std::string data;  ///< data::PackedSequences::fingerprint()
};

/// Writes a teacher's most probable tokens at each target, as safetensors files that are each small enough to
/// be made in memory, and capture.json. The directory appears when it is whole.
class LogprobsWriter {
 public:
  LogprobsWriter(const std::string& directory, CaptureInfo info);
  /// indices: i32 [targets, top_k]; log_probs: f32, the same.
  void add(std::int64_t key, std::span<const std::int32_t> indices, std::span<const float> log_probs);
  CaptureInfo finish();

 private:
  void write_part();

  AtomicDirectory directory_;
  CaptureInfo info_;
  std::int64_t parts_ = 0;
  std::vector<std::int64_t> keys_, ends_;
  std::vector<std::int32_t> indices_;
  std::vector<float> log_probs_;
};

/// Reads what LogprobsWriter wrote.
class CapturedLogprobs {
 public:
  /// IoError or FormatError where it is not such a directory.
  explicit CapturedLogprobs(const std::string& directory);
  const CaptureInfo& info() const { return info_; }

  /// Of all targets of a batch in their order, then of zeros up to `rows`: i64 and f32 [rows, top_k] on
  /// `device`. InvalidConfig for a sequence that was not captured.
  struct Rows {
    Tensor indices, log_probs;
  };
  Rows of(const data::Batch& batch, std::int64_t rows, Device device) const;

 private:
  struct Part {
    Tensor indices, log_probs;
  };
  struct Slot {
    std::size_t part;
    std::int64_t begin, end;
  };
  void read_part(const std::string& path);

  std::string directory_;
  CaptureInfo info_;
  std::vector<Part> parts_;
  std::unordered_map<std::int64_t, Slot> slots_;
};

}  // namespace ingot
