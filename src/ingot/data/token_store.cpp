#include "ingot/data/token_store.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/parallel.h"

namespace ingot::data {
namespace {

constexpr std::array<char, 8> kMagic{'I', 'N', 'G', 'O', 'T', 'T', 'O', 'K'};
constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kPiece = std::size_t{4} << 20;

/// The last bytes of a token file. Little-endian, as every machine that Ingot runs on.
struct Trailer {
  std::array<char, 64> key;
  std::array<char, 64> hash;  // tree_hash of all bytes before the trailer
  std::uint64_t tokens;
  std::uint64_t documents;
  std::uint64_t vocab_size;
  std::uint64_t mask_bytes;  // 0: all tokens are trained
  std::uint32_t token_bytes;
  std::uint32_t version;
  std::array<char, 64> trailer_hash;  // SHA-256 of what stands above
  std::array<char, 8> magic;
};
static_assert(sizeof(Trailer) == 64 * 3 + 8 * 6 && std::is_trivially_copyable_v<Trailer>);

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

constexpr std::size_t bytes_of_bits(std::size_t bits) { return padded((bits + 7) / 8); }

// Appends bits, one for each token; `trained` empty: `count` ones.
void append_bits(std::vector<std::uint8_t>& bits, std::size_t at, std::size_t count,
                 const std::vector<bool>& trained) {
  bits.resize(bytes_of_bits(at + count));
  for (std::size_t i = 0; i < count; ++i)
    if (trained.empty() || trained[i]) bits[(at + i) / 8] |= static_cast<std::uint8_t>(1U << ((at + i) % 8));
}

std::string hash_of(const Trailer& trailer) {
  return sha256_hex(std::as_bytes(std::span(&trailer, 1)).first(offsetof(Trailer, trailer_hash)));
}

std::string text_of(const std::array<char, 64>& field) {
  return {field.begin(), std::find(field.begin(), field.end(), '\0')};
}

void put(std::array<char, 64>& field, const std::string& text) {
  field.fill('\0');
  std::ranges::copy(text, field.begin());
}

void check_documents(std::span<const std::int64_t> ends, std::int64_t tokens, const std::string& file) {
  std::int64_t previous = 0;
  for (const std::int64_t end : ends) {
    INGOT_CHECK(end > previous && end <= tokens,
                FormatError(file, -1, "documents",
                            fmt::format("one ends at token {}, after one that ends at {}, "
                                        "in {} tokens",
                                        end, previous, tokens)));
    previous = end;
  }
  INGOT_CHECK(previous == tokens,
              FormatError(file, -1, "documents", fmt::format("end at token {} of {}", previous, tokens)));
}

template <class T>
std::int32_t largest(std::span<const T> tokens, std::int64_t vocab_size, const std::string& file) {
  if (tokens.empty()) return -1;
  const auto [low, high] = std::ranges::minmax(tokens);
  INGOT_CHECK(low >= 0 && high < vocab_size,
              FormatError(file, -1, "tokens",
                          fmt::format("hold the id {}, outside a vocabulary of {}", low < 0 ? low : high,
                                      vocab_size)));
  return high;
}

}  // namespace

std::string tree_hash(std::span<const std::byte> bytes) {
  const std::size_t pieces = (bytes.size() + kPiece - 1) / kPiece;
  std::vector<std::string> hashes(pieces);
  parallel_for(static_cast<std::int64_t>(pieces), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      hashes[i] = sha256_hex(bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece)));
    }
  });
  Sha256 all;
  for (const std::string& hash : hashes) all.update(hash);
  return all.finish_hex();
}

TokenStore::TokenStore(std::vector<std::int32_t> tokens, std::vector<std::int64_t> document_ends,
                       std::int64_t vocab_size, std::string key, const std::vector<bool>& trained)
    : memory_(std::move(tokens)),
      wide_(memory_.data()),
      size_(static_cast<std::int64_t>(memory_.size())),
      memory_ends_(std::move(document_ends)),
      vocab_size_(vocab_size),
      key_(std::move(key)) {
  document_ends_ = memory_ends_;
  check_documents(document_ends_, size_, "tokens in memory");
  max_token_ = largest(std::span<const std::int32_t>(memory_), vocab_size_, "tokens in memory");
  INGOT_ASSERT(trained.empty() || trained.size() == memory_.size());
  if (!trained.empty()) {
    append_bits(memory_mask_, 0, memory_.size(), trained);
    mask_ = memory_mask_.data();
  }
  if (key_.empty()) {
    key_ = sha256_hex(tree_hash(std::as_bytes(std::span(memory_))) +
                      tree_hash(std::as_bytes(std::span(memory_ends_))) +
                      tree_hash(std::as_bytes(std::span(memory_mask_))));
  }
}

TokenStore TokenStore::open(const std::string& path) {
  TokenStore store;
  store.file_ = MappedFile(path);
  const auto bytes = store.file_.bytes();
  const auto size = static_cast<std::int64_t>(bytes.size());
  INGOT_CHECK(bytes.size() >= sizeof(Trailer),
              FormatError(path, 0, "trailer", fmt::format("the file has {} bytes, too few for one", size)));
  Trailer trailer;
  std::memcpy(&trailer, bytes.data() + bytes.size() - sizeof trailer, sizeof trailer);
  const std::int64_t at = size - static_cast<std::int64_t>(sizeof trailer);
  INGOT_CHECK(trailer.magic == kMagic,
              FormatError(path, at, "magic", "this is not a token file, or one that was cut short"));
  INGOT_CHECK(trailer.version == kVersion,
              FormatError(path, at, "version", fmt::format("is {}, expected {}", trailer.version, kVersion)));
  INGOT_CHECK(text_of(trailer.trailer_hash) == hash_of(trailer),
              FormatError(path, at, "trailer", "does not match its SHA-256: the file is damaged"));

  // The hash says that we wrote it; the checks below hold for files that somebody made with a right hash.
  const auto body = bytes.first(bytes.size() - sizeof trailer);
  const std::uint64_t tokens = trailer.tokens, documents = trailer.documents;
  INGOT_CHECK(
      trailer.token_bytes == 2 || trailer.token_bytes == 4,
      FormatError(path, at, "token_bytes", fmt::format("is {}, expected 2 or 4", trailer.token_bytes)));
  INGOT_CHECK(
      tokens <= body.size() && documents <= body.size() &&
          (trailer.mask_bytes == 0 || trailer.mask_bytes == bytes_of_bits(tokens)) &&
          padded(tokens * trailer.token_bytes) + documents * 8 + trailer.mask_bytes == body.size(),
      FormatError(path, at, "tokens",
                  fmt::format("{} tokens of {} bytes, {} documents and a mask of {} bytes do not make {} "
                              "bytes",
                              tokens, trailer.token_bytes, documents, trailer.mask_bytes, body.size())));
  INGOT_CHECK(trailer.vocab_size <= std::uint64_t{1} << 31,
              FormatError(path, at, "vocab_size", fmt::format("is {}", trailer.vocab_size)));
  INGOT_CHECK(text_of(trailer.hash) == tree_hash(body),
              FormatError(path, 0, "tokens", "do not match their SHA-256: the file is damaged"));

  store.size_ = static_cast<std::int64_t>(tokens);
  store.vocab_size_ = static_cast<std::int64_t>(trailer.vocab_size);
  store.key_ = text_of(trailer.key);
  const auto* ends =
      reinterpret_cast<const std::int64_t*>(body.data() + padded(tokens * trailer.token_bytes));
  store.document_ends_ = {ends, static_cast<std::size_t>(documents)};
  if (trailer.mask_bytes > 0) store.mask_ = reinterpret_cast<const std::uint8_t*>(ends + documents);
  check_documents(store.document_ends_, store.size_, path);
  if (trailer.token_bytes == 2) {
    store.narrow_ = reinterpret_cast<const std::uint16_t*>(body.data());
    store.max_token_ = largest(std::span(store.narrow_, tokens), store.vocab_size_, path);
  } else {
    store.wide_ = reinterpret_cast<const std::int32_t*>(body.data());
    store.max_token_ = largest(std::span(store.wide_, tokens), store.vocab_size_, path);
  }
  return store;
}

template <class T>
void TokenStore::read_as(std::int64_t begin, std::span<T> out) const {
  INGOT_ASSERT(begin >= 0 && static_cast<std::int64_t>(out.size()) <= size_ - begin);
  if (narrow_ != nullptr) {
    std::copy_n(narrow_ + begin, out.size(), out.begin());
  } else {
    std::copy_n(wide_ + begin, out.size(), out.begin());
  }
}
void TokenStore::read(std::int64_t begin, std::span<std::int32_t> out) const { read_as(begin, out); }
void TokenStore::read(std::int64_t begin, std::span<std::int64_t> out) const { read_as(begin, out); }

void check_vocabulary(const TokenStore& store, std::int64_t model_vocab_size) {
  INGOT_CHECK(
      store.max_token() < model_vocab_size,
      InvalidConfig("vocab_size", fmt::format("the model has {} tokens, but the data holds the id {}; its "
                                              "tokenizer has {}: use the model's own tokenizer",
                                              model_vocab_size, store.max_token(), store.vocab_size())));
}

// Hashes in pieces as tree_hash does, while the bytes go by.
struct TokenFileWriter::State {
  FileWriter& out;
  std::int64_t vocab_size;
  bool narrow;
  std::uint64_t tokens = 0;
  std::vector<std::int64_t> ends{};
  std::vector<std::uint8_t> mask{};
  bool masked = false;
  std::vector<std::uint16_t> buffer{};
  Sha256 all{}, piece{};
  std::size_t in_piece = 0;

  void write(std::span<const std::byte> bytes) {
    out.write(bytes);
    while (!bytes.empty()) {
      const std::size_t now = std::min(kPiece - in_piece, bytes.size());
      piece.update(bytes.first(now));
      in_piece += now;
      if (in_piece == kPiece) end_piece();
      bytes = bytes.subspan(now);
    }
  }
  void end_piece() {
    all.update(piece.finish_hex());
    piece = Sha256();
    in_piece = 0;
  }
};

TokenFileWriter::TokenFileWriter(FileWriter& out, std::int64_t vocab_size)
    : state_(new State{.out = out, .vocab_size = vocab_size, .narrow = vocab_size <= 1 << 16}) {}
TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::add_document(std::span<const std::int32_t> tokens, const std::vector<bool>& trained) {
  if (tokens.empty()) return;
  largest(tokens, state_->vocab_size, "the tokenizer's output");
  if (state_->narrow) {
    state_->buffer.resize(tokens.size());
    std::ranges::transform(tokens, state_->buffer.begin(),
                           [](std::int32_t token) { return static_cast<std::uint16_t>(token); });
    state_->write(std::as_bytes(std::span(state_->buffer)));
  } else {
    state_->write(std::as_bytes(tokens));
  }
  append_bits(state_->mask, state_->tokens, tokens.size(), trained);
  state_->masked = state_->masked || !trained.empty();
  state_->tokens += tokens.size();
  state_->ends.push_back(static_cast<std::int64_t>(state_->tokens));
}

void TokenFileWriter::finish(const std::string& key) {
  INGOT_ASSERT(key.size() <= 64);
  State& s = *state_;
  const std::size_t token_bytes = s.narrow ? 2 : 4;
  const std::array<std::byte, 8> zeros{};
  const std::size_t written = s.tokens * token_bytes;
  s.write(std::span(zeros).first(padded(written) - written));
  s.write(std::as_bytes(std::span(s.ends)));
  if (s.masked) s.write(std::as_bytes(std::span(s.mask)));
  if (s.in_piece > 0) s.end_piece();
  Trailer trailer{};
  put(trailer.key, key);
  put(trailer.hash, s.all.finish_hex());
  trailer.tokens = s.tokens;
  trailer.documents = s.ends.size();
  trailer.vocab_size = static_cast<std::uint64_t>(s.vocab_size);
  trailer.mask_bytes = s.masked ? s.mask.size() : 0;
  trailer.token_bytes = static_cast<std::uint32_t>(token_bytes);
  trailer.version = kVersion;
  put(trailer.trailer_hash, hash_of(trailer));
  trailer.magic = kMagic;
  s.out.write(std::as_bytes(std::span(&trailer, 1)));
}

}  // namespace ingot::data
