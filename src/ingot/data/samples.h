#pragma once

#include <cstdint>
#include <memory>

#include "ingot/data/sample_encoder.h"
#include "ingot/data/token_cache.h"

namespace ingot::data {

/// What was made of the records; where the tokens come from the cache, only what the store tells.
struct SampleReport {
  TokenCacheReport cache;
  std::int64_t samples = 0, tokens = 0, trained_tokens = 0;
  std::int64_t all_masked = 0;    ///< left out: nothing in them is trained
  std::int64_t unterminated = 0;  ///< EncodedSample::unterminated
};

/// The samples of a source, each a document of the store, with their masks; encoded on all threads, and kept
/// in the cache as load_tokens keeps text. FormatError names the file, the line and the sample of a record
/// that cannot be used. IoError where there are no records; where nothing in any of them is trained,
/// InvalidConfig that shows one.
std::shared_ptr<const TokenStore> load_samples(const SourceOptions& source, const SampleEncoder& encoder,
                                               const TokenCacheOptions& cache, SampleReport& report);

}  // namespace ingot::data
