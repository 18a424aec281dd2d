#include "ingot/weights/blob_source.h"

#include <algorithm>

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

void check_booleans(const TensorInfo& info, std::span<const std::byte> bytes) {
  if (info.dtype != DType::boolean) return;
  const auto bad = std::ranges::find_if(bytes, [](std::byte b) { return b > std::byte{1}; });
  INGOT_CHECK(bad == bytes.end(),
              FormatError(info.file, static_cast<std::int64_t>(info.offset) + (bad - bytes.begin()),
                          info.name, "holds a byte other than 0 and 1 as a boolean"));
}

}  // namespace ingot
