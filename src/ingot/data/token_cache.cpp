#include "ingot/data/token_cache.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"

namespace ingot::data {
namespace {

namespace fs = std::filesystem;

// Texts go to the tokenizer in batches: large enough to keep all threads busy, small beside the memory.
constexpr std::size_t kBatchBytes = std::size_t{4} << 20;
constexpr std::size_t kBatchTexts = 4096;
// A document beyond this is cut before a line, if the tokenizer allows it.
constexpr std::size_t kPieceBytes = std::size_t{128} << 10;

/// Encodes documents batch by batch and gives each one's tokens, in order.
class DocumentEncoder {
 public:
  DocumentEncoder(const TokenEncoder& encoder, FunctionRef<void(std::span<const std::int32_t>)> take)
      : encoder_(encoder), take_(take) {}

  void add(std::string_view text) {
    while (encoder_.splits_at_lines && text.size() > kPieceBytes) {
      const std::size_t cut = location_to_cut(text);
      if (cut == text.npos) break;
      put(text.substr(0, cut), false);
      text.remove_prefix(cut);
    }
    put(text, true);
  }

  void flush() {
    if (texts_.empty()) return;
    std::vector<std::string_view> views;
    for (const Piece& piece : texts_) views.push_back(piece.text);
    const auto ids = encoder_.encode_batch(views);
    INGOT_CHECK(ids.size() == texts_.size(),
                Error(fmt::format("the tokenizer gave {} results for {} texts", ids.size(), texts_.size())));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!open_ && encoder_.bos_id) document_.push_back(*encoder_.bos_id);
      document_.insert(document_.end(), ids[i].begin(), ids[i].end());
      open_ = !texts_[i].ends_document;
      if (open_) continue;
      if (encoder_.eos_id) document_.push_back(*encoder_.eos_id);
      take_(document_);
      document_.clear();
    }
    texts_.clear();
    bytes_ = 0;
  }

 private:
  struct Piece {
    std::string text;
    bool ends_document;
  };

  /// Behind a newline that a letter follows: no tokenizer's pattern joins those two.
  static std::size_t location_to_cut(std::string_view text) {
    for (std::size_t i = kPieceBytes; i + 1 < text.size() && i < 2 * kPieceBytes; ++i) {
      const char next = text[i + 1];
      if (text[i] == '\n' && ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z'))) return i + 1;
    }
    return std::string_view::npos;
  }

  void put(std::string_view text, bool ends_document) {
    texts_.push_back({std::string(text), ends_document});
    bytes_ += text.size();
    if (bytes_ >= kBatchBytes || texts_.size() >= kBatchTexts) flush();
  }

  const TokenEncoder& encoder_;
  FunctionRef<void(std::span<const std::int32_t>)> take_;
  std::vector<Piece> texts_;
  std::size_t bytes_ = 0;
  std::vector<std::int32_t> document_;
  bool open_ = false;
};

SourceReport encode_all(const SourceOptions& source, const std::vector<SourceFile>& files,
                        const TokenEncoder& encoder, FunctionRef<void(std::span<const std::int32_t>)> take) {
  DocumentEncoder documents(encoder, take);
  const SourceReport report =
      for_each_document(source, files, [&](std::string_view text) { documents.add(text); });
  documents.flush();
  return report;
}

/// The cached file where it is there and sound. `problem` says why it is not, but for one that is missing.
std::shared_ptr<const TokenStore> open_cached(const std::string& path, const std::string& key,
                                              std::string& problem) {
  if (!fs::exists(path)) return nullptr;
  try {
    auto store = std::make_shared<const TokenStore>(TokenStore::open(path));
    if (store->key() == key) return store;
    problem = fmt::format("{}: holds the tokens of something else; the text was tokenized again", path);
  } catch (const Error& error) {
    problem = fmt::format("{}; the text was tokenized again", error.what());
  }
  return nullptr;
}

void remove_oldest(const std::string& directory, int keep) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code code;
  for (fs::directory_iterator it(directory, code), end; !code && it != end; it.increment(code)) {
    if (it->path().extension() == ".tokens") files.emplace_back(it->last_write_time(code), it->path());
  }
  std::ranges::sort(files, std::greater<>());
  for (std::size_t i = static_cast<std::size_t>(std::max(keep, 1)); i < files.size(); ++i) {
    fs::remove(files[i].second, code);  // who has it mapped keeps it
  }
}

std::shared_ptr<const TokenStore> make_in_memory(const std::string& key, std::int64_t vocab_size,
                                                 FunctionRef<void(AddDocument)> make) {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> ends;
  std::vector<bool> trained;
  bool masked = false;
  make([&](std::span<const std::int32_t> document, const std::vector<bool>& mask) {
    if (document.empty()) return;
    tokens.insert(tokens.end(), document.begin(), document.end());
    ends.push_back(static_cast<std::int64_t>(tokens.size()));
    trained.insert(trained.end(), mask.begin(), mask.end());
    trained.resize(tokens.size(), true);
    masked = masked || !mask.empty();
  });
  if (!masked) trained.clear();
  return std::make_shared<const TokenStore>(std::move(tokens), std::move(ends), vocab_size, key, trained);
}

void check_not_empty(const TokenStore& store, const SourceOptions& source) {
  INGOT_CHECK(store.size() > 0, IoError(source.paths.front(), "its text gave no tokens"));
}

}  // namespace

std::string source_key(const SourceOptions& source, const std::vector<SourceFile>& files,
                       const std::vector<std::string>& parts) {
  Sha256 hash;
  // Each part ends with its length, so no two lists give the same text.
  const auto add = [&](std::string_view part) {
    hash.update(part);
    hash.update(fmt::format("#{}\n", part.size()));
  };
  add("ingot tokens 3");
  for (const std::string& part : parts) add(part);
  add(source.text_field);
  add(source.encoding);
  add(source.document_separator);
  add(fmt::format("{}", static_cast<int>(source.invalid_utf8)));
  for (const SourceFile& file : files) {
    if (!file.left_out.empty()) continue;
    add(fmt::format("{}", static_cast<int>(file.format)));
    const MappedFile map(file.path, MappedFile::Access::sequential);
    add(tree_hash(map.bytes()));
  }
  return hash.finish_hex();
}

std::shared_ptr<const TokenStore> cached_tokens(const std::string& key, std::int64_t vocab_size,
                                                const TokenCacheOptions& cache, TokenCacheReport& report,
                                                FunctionRef<void(AddDocument)> make) {
  if (cache.directory.empty()) return make_in_memory(key, vocab_size, make);
  std::shared_ptr<const TokenStore> store;
  const std::string path = fmt::format("{}/{}.tokens", cache.directory, key.substr(0, 32));
  store = open_cached(path, key, report.problem);
  report.reused = store != nullptr;
  try {
    if (store == nullptr) {
      make_directories(cache.directory);
      sweep_partial(cache.directory);  // what a killed process left
      write_file_atomically(path, [&](FileWriter& out) {
        TokenFileWriter writer(out, vocab_size);
        make([&](std::span<const std::int32_t> tokens, const std::vector<bool>& trained) {
          writer.add_document(tokens, trained);
        });
        writer.finish(key);
      });
      store = std::make_shared<const TokenStore>(TokenStore::open(path));
      remove_oldest(cache.directory, cache.keep);
    } else {
      std::error_code ignored;
      fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // in use: not the oldest
    }
    report.path = path;
    return store;
  } catch (const IoError& error) {
    // Only the cache's own troubles: those of the source come again below, and for good.
    if (!error.path.starts_with(cache.directory)) throw;
    report.problem = fmt::format("{}; the tokens are kept in memory for this run", error.what());
  }
  return store != nullptr ? store : make_in_memory(key, vocab_size, make);
}

std::shared_ptr<const TokenStore> load_tokens(const SourceOptions& source, const TokenEncoder& encoder,
                                              const TokenCacheOptions& cache, TokenCacheReport* report_out) {
  INGOT_CHECK(encoder.vocab_size > 0 && encoder.vocab_size <= std::int64_t{1} << 31,
              InvalidConfig("vocab_size", fmt::format("is {}", encoder.vocab_size)));
  TokenCacheReport unwanted;
  TokenCacheReport& report = report_out == nullptr ? unwanted : *report_out;
  report = {};
  const std::vector<SourceFile> files = list_files(source);
  report.left_out = describe_left_out(files);
  const std::string ends =
      fmt::format("{} {} {}", encoder.vocab_size, encoder.bos_id.value_or(-1), encoder.eos_id.value_or(-1));
  const std::string key = source_key(source, files, {encoder.identity, ends});
  auto store = cached_tokens(key, encoder.vocab_size, cache, report, [&](AddDocument add) {
    report.source =
        encode_all(source, files, encoder, [&](std::span<const std::int32_t> tokens) { add(tokens, {}); });
  });
  check_not_empty(*store, source);
  return store;
}

}  // namespace ingot::data
