#pragma once

#include <vector>

#include "ingot/base/config_table.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// The keys of `ingot train` that set one member each. Those of data sets, objectives and an architecture are
/// read beside it (dataset_config, objective_config, config).
const ConfigTable<TrainConfig>& train_keys();

/// Those of adapters.
const ConfigTable<AdapterTraining>& adapter_keys();

/// All keys, for help and the reference pages.
std::vector<ConfigSection> train_reference();

}  // namespace ingot
