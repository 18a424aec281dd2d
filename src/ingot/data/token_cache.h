#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/data/documents.h"
#include "ingot/data/token_store.h"

namespace ingot::data {

/// What data needs of a tokenizer.
struct TokenEncoder {
  /// The ids of several texts, without special tokens.
  std::function<std::vector<std::vector<std::int32_t>>(std::span<const std::string_view>)> encode_batch;
  std::int64_t vocab_size = 0;
  /// Changes whenever the ids may change: a hash of tokenizer.json, for example.
  std::string identity;
  /// Put before and after every document.
  std::optional<std::int32_t> bos_id, eos_id;
  /// Whether a text may be encoded in pieces cut before a line: the same ids result. Then one long document
  /// is encoded on all threads, and in little memory.
  bool splits_at_lines = false;
};

struct TokenCacheOptions {
  /// Where token files are kept. Empty: tokens stay in memory.
  std::string directory;
  /// The newest this many token files are kept.
  int keep = 8;
};

struct TokenCacheReport {
  bool reused = false;
  std::string path;      ///< empty where the tokens are in memory only
  std::string problem;   ///< why a cached file was not used, or why none could be written; empty: none
  SourceReport source;   ///< where not reused
  std::string left_out;  ///< describe_left_out()
};

/// Takes a document's tokens, and which of them are trained: empty, all are.
using AddDocument = FunctionRef<void(std::span<const std::int32_t>, const std::vector<bool>&)>;

/// The tokens that `make` gives, document by document: from the cache where a sound file has `key`, else made
/// now, and put there. `make` is called again where the cache could not be written.
std::shared_ptr<const TokenStore> cached_tokens(const std::string& key, std::int64_t vocab_size,
                                                const TokenCacheOptions& cache, TokenCacheReport& report,
                                                FunctionRef<void(AddDocument)> make);

/// SHA-256 over everything that what is read from these files depends on, and `parts`.
std::string source_key(const SourceOptions& source, const std::vector<SourceFile>& files,
                       const std::vector<std::string>& parts);

/// The tokens of a source: from the cache where its content, the tokenizer and the options are the same, else
/// made now, and put there. A damaged or foreign file in the cache is replaced. Where the cache cannot be
/// written the tokens stay in memory, and the report says why.
std::shared_ptr<const TokenStore> load_tokens(const SourceOptions& source, const TokenEncoder& encoder,
                                              const TokenCacheOptions& cache = {},
                                              TokenCacheReport* report = nullptr);

}  // namespace ingot::data
