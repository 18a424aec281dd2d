#include "ingot/train/history.h"

#include <algorithm>

namespace ingot {

double RunHistory::median(double StepRecord::*metric) const {
  if (steps_.empty()) return 0;
  std::vector<double> values;
  values.reserve(steps_.size());
  for (const StepRecord& step : steps_) values.push_back(step.*metric);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace ingot
