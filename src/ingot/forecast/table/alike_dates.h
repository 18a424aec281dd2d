#pragma once

#include <optional>
#include <string_view>

#include "ingot/forecast/table/date_style.h"

namespace ingot::forecast {

/// Dates of one column, which are nearly always written alike: where the first is as ISO 8601 has it
/// ("2016-07-01", "2016-07-01T13:00:00.000") the others are not guessed at one by one.
class AlikeDates {
 public:
  /// What parse_moment gives.
  std::optional<Moment> parse(std::string_view text, DateStyle* style, DateOrder order, int names);

 private:
  std::size_t length_ = 0;  // of all; 0: nothing is known
  char separator_ = 0;      // between date and time
  DateStyle style_;
};

}  // namespace ingot::forecast
