#pragma once

#include <memory>

#include "ingot/base/parallel.h"
#include "ingot/models/language/decoder.h"
#include "ingot/train/frozen_shards.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// The model that a run began from, which objectives compare with: the model itself with its adapters
/// switched off (or, where the run goes on with an adapter, with that one as it was); a frozen copy only
/// where the base's own weights train.
class ReferenceModel {
 public:
  /// `model` outlives it.
  ReferenceModel(const TrainConfig& config, LanguageModel& model);

  /// Runs `f` with the reference, without gradients.
  void run(FunctionRef<void(const LanguageModel&)> f) const;

  /// ZeRO stage 3: each rank keeps a part of the copy's layers, if there is one.
  void share_out(dist::Communicator& communicator, dist::Background& background);

  /// Whether a run of this configuration needs the frozen copy.
  static bool is_copied(const TrainConfig& config);

 private:
  void switch_adapters(bool to_reference) const;

  LanguageModel& model_;
  bool begins_adapted_;
  bool with_values_;
  std::unique_ptr<LanguageModel> copy_;
  std::unique_ptr<FrozenShards> shards_;  // of the copy
};

}  // namespace ingot
