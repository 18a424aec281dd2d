#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ingot/data/records.h"

namespace ingot::data {

/// A sample as tokens, and which of them are learned.
struct EncodedSample {
  std::vector<std::int32_t> tokens;
  std::vector<bool> trained;  ///< one for each token
  /// Whether something that is learned is followed by no token that ends it: the model would not learn to
  /// stop.
  bool unterminated = false;

  bool anything_trained() const;
};

/// How records become samples. Threads may share it.
struct SampleEncoder {
  /// Throws FormatError at the location.
  std::function<EncodedSample(const Record&, const RecordLocation&)> encode;
  /// Whether an object of a JSON file is a record, and not what holds them.
  std::function<bool(const Record&)> is_record;
  /// Tokens as text, for messages.
  std::function<std::string(const EncodedSample&)> show;
  std::int64_t vocab_size = 0;
  /// Changes whenever tokens or masks may change.
  std::string identity;
};

}  // namespace ingot::data
