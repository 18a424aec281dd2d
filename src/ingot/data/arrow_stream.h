#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ingot/data/csv.h"

namespace ingot::data {

/// How far the clocks of a time zone ("Europe/Berlin") are ahead of UTC, in seconds, at a moment.
using ZoneOffset = std::function<std::int64_t(const std::string& zone, std::int64_t seconds)>;

/// A frame from an ArrowArrayStream of Arrow's C stream interface, as `__arrow_c_stream__` gives it: numbers,
/// truths, text, dates, moments and times of day, and indices into such. The stream is used up, and released
/// by its owner. DataError names a column of another type, and tells what the stream's owner says of an
/// error. `offset_at` is asked about moments of zones with names.
CsvTable read_arrow_stream(void* stream, const std::string& name, const ZoneOffset& offset_at = {});

}  // namespace ingot::data
