#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"

namespace ingot {

class AtomicDirectory;
namespace dist {
class Communicator;
}

/// All that a run needs to go on as if it had never stopped.
struct Checkpoint {
  std::map<std::string, std::map<std::string, Tensor>> tensors;  ///< by file: "ema" is ema.safetensors
  /// What this rank of several has of a file, by names that ranks do not share: its part of "optimizer" is
  /// optimizer-00001-of-00004.safetensors.
  std::map<std::string, std::map<std::string, Tensor>> shards = {};
  std::string state;          ///< a JSON object
  std::string metadata = {};  ///< run.json; empty: none is written
};

/// How checkpoints of one kind of training are named.
struct CheckpointNames {
  std::string state_file = "trainer_state.json";
  /// checkpoint-000123 of step 123, beside others; or one `checkpoint`, which the next one replaces.
  bool numbered = true;
};

struct CheckpointEntry {
  std::int64_t step = 0;  ///< 0 where they are not numbered
  std::string path;
};

/// A checkpoint whose sums were verified.
class SavedCheckpoint {
 public:
  SavedCheckpoint(std::string path, std::string state_file);
  const std::string& path() const { return path_; }
  const std::string& state() const { return state_; }
  std::string state_path() const { return path_ + "/" + state_file_; }
  /// The tensors of `<file>.safetensors`, by name; none where there is no such file.
  std::map<std::string, Tensor> tensors(std::string_view file) const;
  /// The same, or those of all ranks together where each wrote its own part.
  std::map<std::string, Tensor> shards(std::string_view file) const;

 private:
  std::string path_, state_file_, state_;
};

/// Where a run keeps its checkpoints. Each is a directory that appears whole or not at all, with SHA256SUMS
/// over every file (`sha256sum -c` checks it). With several ranks all of them write, each its own shards into
/// the same directory, and the first the rest.
class CheckpointDirectory {
 public:
  /// `ranks`: those that call write() together; null for a process that writes alone.
  explicit CheckpointDirectory(std::string root, CheckpointNames names = {},
                               dist::Communicator* ranks = nullptr);

  /// Whether several ranks write together.
  bool is_shared() const { return ranks_ != nullptr; }
  std::string path(std::int64_t step) const;
  /// Oldest first; damaged ones too.
  std::vector<CheckpointEntry> list() const;

  /// Puts a file for each entry of checkpoint.tensors that is not empty, and the state, into a new
  /// checkpoint, behind what `write_first` writes: a file that is there then stays as it is. Returns the
  /// checkpoint's path. IoError (a full disk says how much is missing); what was saved before stays.
  std::string write(std::int64_t step, const Checkpoint& checkpoint,
                    FunctionRef<void(const AtomicDirectory&)> write_first) const;
  std::string write(std::int64_t step, const Checkpoint& checkpoint) const;

  /// Throws FormatError naming the first file that is missing, short or changed, and what to do.
  void verify(const std::string& path) const;
  /// Verifies it first.
  SavedCheckpoint open(const std::string& path) const;
  /// The newest checkpoint that verifies. Damaged ones are reported in the log, with what is wrong, and
  /// passed over. Leftovers of a crash are swept away first. Nothing where there is none; throws when all are
  /// damaged.
  std::optional<SavedCheckpoint> newest() const;

  /// Deletes all but the newest `keep` and the one of step `best` (-1: none).
  void prune(std::int64_t keep, std::int64_t best) const;
  /// Deletes all, and the directory if nothing else is in it.
  void remove() const;

 private:
  bool is_first() const;
  void write_own(const std::string& place, const Checkpoint& checkpoint) const;
  void together(FunctionRef<void()> work) const;

  std::string root_;
  CheckpointNames names_;
  dist::Communicator* ranks_;
};

}  // namespace ingot
