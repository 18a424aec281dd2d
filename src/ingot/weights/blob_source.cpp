#include "ingot/weights/blob_source.h"

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {

void check_loadable(const WeightSource& source, const TensorInfo& info) {
  INGOT_CHECK(info.dtype.has_value(),
              NotImplemented(fmt::format("{}: loading '{}': element type {}", source.location(), info.name,
                                         info.stored_as)));
  INGOT_CHECK(info.shape.size() <= kMaxRank,
              NotImplemented(fmt::format("{}: loading '{}': shape {} has more than {} axes",
                                         source.location(), info.name, to_string(info.shape), kMaxRank)));
}

}  // namespace ingot
