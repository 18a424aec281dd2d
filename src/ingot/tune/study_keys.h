#pragma once

#include <vector>

#include "ingot/base/config_table.h"
#include "ingot/tune/study_config.h"

namespace ingot::tune {

/// The keys of a study at its top level, of its sampler and of its pruner.
const ConfigTable<StudyConfig>& study_keys();
const ConfigTable<SamplerOptions>& sampler_keys();
const ConfigTable<PrunerOptions>& pruner_keys();

/// All keys, for help and the reference pages.
std::vector<ConfigSection> study_reference();

}  // namespace ingot::tune
