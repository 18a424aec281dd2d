#pragma once

#include <map>
#include <optional>
#include <string>

#include "ingot/core/tensor.h"
#include "ingot/forecast/fit.h"

namespace ingot::forecast {

/// All that a fit needs to go on with the bits of one that was never stopped.
struct FitCheckpoint {
  FitProgress progress;
  std::map<std::string, Tensor> weights;    ///< by parameter, as they are
  std::map<std::string, Tensor> best;       ///< those of progress.best_epoch; empty where none are kept
  std::map<std::string, Tensor> optimizer;  ///< Optimizer::state()
  std::map<std::string, Tensor> ema;        ///< Ema::state(); empty where no average is kept
};

/// What a checkpoint is of: only a fit of this configuration to these numbers may go on with it.
struct FitIdentity {
  FitIdentity(const FitConfig& config, const SeriesTable& table);
  std::string config;  ///< JSON without the path of the data; of `from` the SHA-256 of the weights
  std::string table;   ///< SHA-256 of dates, names and numbers
};

/// SHA-256 of the identity of a fit: with equal ones fit() gives the same model. `config` as fit() takes it.
std::string fit_digest(const FitConfig& config, const SeriesTable& table);

/// Writes `<directory>/checkpoint`, in place of the one before: whole or not at all. IoError (a full disk
/// says how much is missing); what was saved before stays.
void save_fit_checkpoint(const std::string& directory, const FitIdentity& identity,
                         const FitCheckpoint& checkpoint);

/// Reads it; nothing where none was finished. FormatError names the file that is damaged; InvalidConfig names
/// the key that the fit was begun with another value of, DataError the table where its numbers are others.
std::optional<FitCheckpoint> load_fit_checkpoint(const std::string& directory, const FitIdentity& identity,
                                                 const std::string& source);

/// Whether there is one that a fit could go on with; none in "".
bool has_fit_checkpoint(const std::string& directory);

/// Deletes the checkpoint, when the model itself is safe, and the directory if nothing else is in it.
void remove_fit_checkpoint(const std::string& directory);

}  // namespace ingot::forecast
