#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ingot/forecast/fit.h"

// What of a fit stands in files and in what `--json` prints.
namespace ingot::forecast {

/// The keys that read_fit_config takes back. Columns and targets are not among them: they follow from the
/// table; nor is the device, which is where and not what.
nlohmann::ordered_json to_json(const FitConfig& config);

nlohmann::ordered_json to_json(const std::vector<EpochReport>& epochs);
/// nlohmann's exception where it is not such a list.
std::vector<EpochReport> read_epochs(const nlohmann::ordered_json& json);

/// {"missing_rows", "missing_values", "rows_left_out", "notes"}
nlohmann::ordered_json to_json(const FillReport& gaps);

}  // namespace ingot::forecast
