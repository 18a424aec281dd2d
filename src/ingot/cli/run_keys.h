#pragma once

#include "ingot/base/config_table.h"
#include "ingot/cli/inference.h"

namespace ingot::cli {

/// How a model is run: the keys of a configuration. The options of add_run_options() have their texts.
const ConfigTable<InferenceOptions>& run_keys();

}  // namespace ingot::cli
