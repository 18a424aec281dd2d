#pragma once

#include <algorithm>
#include <cstdint>

#include "ingot/kernels/attention.h"

namespace ingot::kernels::cpu {

/// The keys [lo, hi) that one query sees; empty when hi <= lo.
struct KeyRange {
  std::int64_t lo = 0, hi = 0;
  bool empty() const { return hi <= lo; }
};

/// The keys of [first, last) that some of `count` queries see, as one range; empty where none does.
inline KeyRange seen_keys(const KeyRange* ranges, std::int64_t count, std::int64_t first, std::int64_t last) {
  KeyRange seen{last, first};
  for (std::int64_t i = 0; i < count; ++i) {
    if (ranges[i].empty()) continue;
    seen.lo = std::min(seen.lo, std::max(ranges[i].lo, first));
    seen.hi = std::max(seen.hi, std::min(ranges[i].hi, last));
  }
  return seen;
}

/// Ranges of the queries [begin, begin + count) of sequence `b`, of S queries and T keys
/// (kernels/attention.h).
inline void key_ranges(const AttentionMask& mask, std::int64_t b, std::int64_t queries, std::int64_t keys,
                       std::int64_t begin, std::int64_t count, KeyRange* to) {
  const std::int64_t length =
      mask.kv_length ? std::clamp<std::int64_t>(mask.kv_length.as<std::int32_t>()[b], 0, keys) : keys;
  const std::int32_t* doc =
      mask.doc_start ? mask.doc_start.as<std::int32_t>() + b * mask.doc_start.stride(0) : nullptr;
  std::int64_t document_end = 0;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    const std::int64_t position = i + length - queries;
    KeyRange range{0, length};
    if (mask.causal) range.hi = std::min(range.hi, position + 1);
    if (mask.window > 0) {
      range.lo = std::max(range.lo, position - mask.window + 1);
      if (!mask.causal) range.hi = std::min(range.hi, position + mask.window);
    }
    if (mask.chunk > 0) {
      const std::int64_t start = doc != nullptr ? doc[i] : 0;
      range.lo = std::max(range.lo, position - (position - start) % mask.chunk);
    }
    if (doc != nullptr) {
      range.lo = std::max<std::int64_t>(range.lo, doc[i]);
      if (!mask.causal) {
        if (document_end <= i) {
          for (document_end = i + 1; document_end < queries && doc[document_end] == doc[i];) ++document_end;
        }
        range.hi = std::min(range.hi, document_end);
      }
    }
    range.hi = std::max(range.hi, range.lo);
    to[i - begin] = range;
  }
}

}  // namespace ingot::kernels::cpu
