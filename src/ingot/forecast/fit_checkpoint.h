#pragma once

#include <string>

#include "ingot/forecast/fit.h"
#include "ingot/train/checkpoint_directory.h"

namespace ingot::forecast {

/// What a checkpoint is of: only a fit of this configuration to these numbers may go on with it.
struct FitIdentity {
  FitIdentity(const FitConfig& config, const SeriesTable& table);
  std::string config;  ///< JSON without the path of the data; of `from` the SHA-256 of the weights
  std::string table;   ///< table_digest
};

/// SHA-256 of dates, names and numbers.
std::string table_digest(const SeriesTable& table);

/// SHA-256 of the identity of a fit: with equal ones fit() gives the same model. `config` as fit() takes it.
std::string fit_digest(const FitConfig& config, const SeriesTable& table);

/// `<directory>/checkpoint`, the only one: each replaces the one before.
/// `ranks`: those that write it together.
CheckpointDirectory fit_checkpoints(const std::string& directory, dist::Communicator* ranks = nullptr);

/// Whether there is one that a fit could go on with; none in "".
bool has_fit_checkpoint(const std::string& directory);

/// Deletes the checkpoint, when the model itself is safe, and the directory if nothing else is in it.
void remove_fit_checkpoint(const std::string& directory);

}  // namespace ingot::forecast
