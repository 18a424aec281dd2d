#pragma once

#include <vector>

#include "ingot/base/config_table.h"
#include "ingot/forecast/fit_config.h"

namespace ingot::forecast {

/// The keys of `ingot forecast fit` but those of the models (models/forecast/config.h).
const ConfigTable<FitConfig>& fit_keys();

/// All keys, for help and the reference pages.
std::vector<ConfigSection> fit_reference();

}  // namespace ingot::forecast
