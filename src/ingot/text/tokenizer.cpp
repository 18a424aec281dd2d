#include "ingot/text/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/parallel.h"
#include "ingot/base/utf8.h"
#include "ingot/text/bpe.h"
#include "ingot/text/decoder.h"
#include "ingot/text/json_view.h"
#include "ingot/text/normalizer.h"
#include "ingot/text/post_processor.h"
#include "ingot/text/pre_tokenizer.h"
#include "ingot/text/tokenizer_spec.h"

namespace ingot::text {

namespace {

/// Workspaces that wait for the next call: as many as ever ran at once.
class WorkspacePool {
 public:
  struct Workshop {
    Workspace work;
    PieceList pieces;
    std::string normalized;
  };

  class Lease {
   public:
    explicit Lease(WorkspacePool& pool) : pool_(pool) {
      const std::lock_guard lock(pool.mutex_);
      if (pool.free_.empty()) pool.free_.push_back(std::make_unique<Workshop>());
      workshop_ = std::move(pool.free_.back());
      pool.free_.pop_back();
    }
    ~Lease() {
      const std::lock_guard lock(pool_.mutex_);
      pool_.free_.push_back(std::move(workshop_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Workshop* operator->() const { return workshop_.get(); }
    Workshop& operator*() const { return *workshop_; }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Workshop> workshop_;
  };

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workshop>> free_;
};

using Workshop = WorkspacePool::Workshop;

template <class Make>
auto make_stage(const std::string& json, const TokenizerSpec& spec, const char* field, Make make)
    -> decltype(make(std::declval<const JsonView&>())) {
  if (json == "null") return nullptr;
  const JsonDocument document(json, spec.source, field);
  return make(document.root());
}

}  // namespace

void Workspace::fail_for_work() {
  throw Error("the tokenizer takes far longer than any honest one: its vocabulary has very long tokens");
}

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec given);

  void encode_text(std::string_view text, bool split_special, std::vector<std::int32_t>& ids) const;
  void encode_raw(std::string_view bytes, bool at_start, bool split_special, Workshop& shop,
                  std::vector<std::int32_t>& ids) const;
  void encode_segment(std::string_view text, bool at_start, bool split_special, Workshop& shop,
                      std::vector<std::int32_t>& ids) const;
  void encode_pieces(std::string_view text, bool at_start, Workshop& shop,
                     std::vector<std::int32_t>& ids) const;

  std::string_view token(std::int32_t id) const;
  std::string_view decoded_token(std::int32_t id) const;
  std::optional<std::int32_t> id_of(std::string_view token) const;
  std::optional<std::int32_t> id_of_named(std::string_view token) const {
    return token.empty() ? std::nullopt : id_of(token);
  }
  bool special(std::int32_t id) const;

  TokenizerSpec spec;
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<Decoder> decoder;
  const BpeModel* byte_model = nullptr;  // set where pieces stay plain bytes
  AddedTokenMatcher raw_matcher, normalized_matcher;
  std::unordered_map<std::int32_t, const AddedToken*> added_by_id;
  std::unordered_map<std::string_view, std::int32_t> added_ids;
  std::int32_t id_limit = 0;
  mutable WorkspacePool pool;
};

Tokenizer::Impl::Impl(TokenizerSpec given) : spec(std::move(given)) {
  normalizer = make_stage(spec.normalizer, spec, "normalizer", make_normalizer);
  pre_tokenizer = make_stage(spec.pre_tokenizer, spec, "pre_tokenizer", make_pre_tokenizer);
  decoder = make_stage(spec.decoder, spec, "decoder", make_decoder);
  const auto* bpe = dynamic_cast<const BpeModel*>(spec.model.get());
  if (bpe != nullptr && bpe->accepts_bytes() && pre_tokenizer != nullptr && pre_tokenizer->leave_bytes())
    byte_model = bpe;

  id_limit = spec.model->vocabulary().id_limit();
  // Special tokens first: where two tokens look alike, they win.
  std::stable_sort(spec.added_tokens.begin(), spec.added_tokens.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.special > b.special; });
  for (AddedToken& token : spec.added_tokens) {
    id_limit = std::max(id_limit, token.id + 1);
    added_by_id.emplace(token.id, &token);
    added_ids.emplace(token.content, token.id);
    token.form = token.content;
    if (token.normalized && normalizer != nullptr) normalizer->apply(token.form);
    (token.normalized ? normalized_matcher : raw_matcher).add(token);
  }
  post_processor = make_stage(spec.post_processor, spec, "post_processor", make_post_processor);
}

void Tokenizer::Impl::encode_pieces(std::string_view text, bool at_start, Workshop& shop,
                                    std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  if (pre_tokenizer == nullptr) return spec.model->encode(text, ids, shop.work);
  shop.pieces.reset(text, at_start);
  pre_tokenizer->apply(shop.pieces);
  for (const Piece& piece : shop.pieces.pieces()) {
    if (byte_model != nullptr)
      byte_model->encode_bytes(piece.text, ids, shop.work);
    else
      spec.model->encode(piece.text, ids, shop.work);
  }
}

void Tokenizer::Impl::encode_segment(std::string_view text, bool at_start, bool split_special, Workshop& shop,
                                     std::vector<std::int32_t>& ids) const {
  if (normalizer != nullptr) {
    shop.normalized.assign(text);
    normalizer->apply(shop.normalized);
    shop.work.spend(shop.normalized.size());
    text = shop.normalized;
  }
  if (normalized_matcher.empty()) return encode_pieces(text, at_start, shop, ids);
  for (const auto& segment : normalized_matcher.split(text, split_special)) {
    if (segment.token != nullptr)
      ids.push_back(segment.token->id);
    else
      encode_pieces(segment.text, at_start && segment.text.data() == text.data(), shop, ids);
  }
}

/// Bytes that are not UTF-8: a byte-level tokenizer takes each ill-formed run as a piece of its own.
void Tokenizer::Impl::encode_raw(std::string_view bytes, bool at_start, bool split_special, Workshop& shop,
                                 std::vector<std::int32_t>& ids) const {
  for (std::size_t i = 0; i < bytes.size();) {
    std::size_t end = i;
    const bool good = next_utf8(bytes, i).valid;
    for (Utf8Step step; end < bytes.size(); end += step.length) {
      step = next_utf8(bytes, end);
      if (step.valid != good) break;
    }
    const std::string_view run = bytes.substr(i, end - i);
    if (good)
      encode_segment(run, at_start && i == 0, split_special, shop, ids);
    else
      byte_model->encode_bytes(run, ids, shop.work);
    i = end;
  }
}

void Tokenizer::Impl::encode_text(std::string_view text, bool split_special,
                                  std::vector<std::int32_t>& ids) const {
  constexpr std::size_t kWorkAnyway = std::size_t{64} << 20, kWorkPerByte = 1024;
  const WorkspacePool::Lease shop(pool);
  shop->work.spent = 0;
  shop->work.allowed = kWorkAnyway + kWorkPerByte * text.size();
  const bool valid = is_valid_utf8(text);
  std::string replaced;
  if (!valid && byte_model == nullptr) {
    replaced = to_valid_utf8(text);
    text = replaced;
  }
  const bool keep_bytes = !valid && byte_model != nullptr;
  if (raw_matcher.empty()) {
    if (keep_bytes) return encode_raw(text, true, split_special, *shop, ids);
    return encode_segment(text, true, split_special, *shop, ids);
  }
  for (const auto& segment : raw_matcher.split(text, split_special)) {
    const bool at_start = segment.text.data() == text.data();
    if (segment.token != nullptr)
      ids.push_back(segment.token->id);
    else if (keep_bytes)
      encode_raw(segment.text, at_start, split_special, *shop, ids);
    else
      encode_segment(segment.text, at_start, split_special, *shop, ids);
  }
}

std::string_view Tokenizer::Impl::token(std::int32_t id) const {
  const auto it = added_by_id.find(id);
  return it != added_by_id.end() ? std::string_view(it->second->content) : spec.model->vocabulary().token(id);
}

/// What the decoder gets for `id`: the normalized form of an added token that text is normalized to, so that
/// the decoder can undo what the normalizer did.
std::string_view Tokenizer::Impl::decoded_token(std::int32_t id) const {
  const auto it = added_by_id.find(id);
  if (it == added_by_id.end()) return spec.model->vocabulary().token(id);
  return it->second->special ? it->second->content : it->second->form;
}

std::optional<std::int32_t> Tokenizer::Impl::id_of(std::string_view token) const {
  if (const auto it = added_ids.find(token); it != added_ids.end()) return it->second;
  const std::int32_t id = spec.model->vocabulary().find(token);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

bool Tokenizer::Impl::special(std::int32_t id) const {
  const auto it = added_by_id.find(id);
  return it != added_by_id.end() && it->second->special;
}

Tokenizer::Tokenizer(TokenizerSpec spec) : impl_(std::make_shared<const Impl>(std::move(spec))) {}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& source) {
  return Tokenizer(parse_tokenizer_json(json, source));
}

Tokenizer Tokenizer::from_file(const std::filesystem::path& path) {
  const std::string json = read_file(path.string());
  if (auto keras = read_keras_tokenizer(json, path.string())) return Tokenizer(std::move(*keras));
  return from_json(json, path.string());
}

Tokenizer Tokenizer::from_directory(const std::filesystem::path& directory) {
  return Tokenizer(read_tokenizer_directory(directory));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  impl_->encode_text(text, options.split_special_tokens, ids);
  if (impl_->post_processor != nullptr && options.add_special_tokens) impl_->post_processor->apply(ids);
  return ids;
}

namespace {

void cut_longest(std::vector<std::int32_t>& a, std::vector<std::int32_t>& b, std::size_t limit,
                 std::size_t special) {
  const std::size_t room = limit > special ? limit - special : 0;
  while (a.size() + b.size() > room) {
    if (a.size() > b.size()) {
      a.pop_back();
    } else {
      b.pop_back();
    }
  }
}

}  // namespace

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                const EncodeOptions& options) const {
  std::vector<std::int32_t> a, b;
  impl_->encode_text(first, options.split_special_tokens, a);
  impl_->encode_text(second, options.split_special_tokens, b);
  const PostProcessor plain = plain_post_processor();
  const PostProcessor& processor = impl_->post_processor != nullptr ? *impl_->post_processor : plain;
  const std::vector<std::int32_t> none;
  const std::size_t special = processor.apply(none, &none, options.add_special_tokens).ids.size();
  if (options.max_pair_length > 0)
    cut_longest(a, b, static_cast<std::size_t>(options.max_pair_length), special);
  return processor.apply(a, &b, options.add_special_tokens);
}

std::vector<std::vector<std::int32_t>> Tokenizer::encode_batch(std::span<const std::string_view> texts,
                                                               const EncodeOptions& options) const {
  std::vector<std::vector<std::int32_t>> results(texts.size());
  parallel_for(static_cast<std::int64_t>(texts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      results[i] = encode(texts[i], options);
  });
  return results;
}

std::string Tokenizer::decode_bytes(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (skip_special_tokens && impl_->special(id)) continue;
    if (const std::string_view token = impl_->decoded_token(id); !token.empty()) tokens.emplace_back(token);
  }
  if (impl_->decoder != nullptr) impl_->decoder->apply(tokens);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && impl_->decoder == nullptr) text += ' ';
    text += tokens[i];
  }
  return text;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  return to_valid_utf8(decode_bytes(ids, skip_special_tokens));
}

bool Tokenizer::decodes_token_wise() const {
  return impl_->decoder != nullptr && impl_->decoder->is_token_wise();
}

std::int32_t Tokenizer::vocab_size() const { return impl_->id_limit; }
std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view token) const {
  return impl_->id_of(token);
}
std::string_view Tokenizer::id_to_token(std::int32_t id) const { return impl_->token(id); }
bool Tokenizer::is_special(std::int32_t id) const { return impl_->special(id); }
const std::vector<AddedToken>& Tokenizer::added_tokens() const { return impl_->spec.added_tokens; }
const TokenizerConfig& Tokenizer::config() const { return impl_->spec.config; }

std::optional<std::int32_t> Tokenizer::bos_id() const { return impl_->id_of_named(config().bos_token); }
std::optional<std::int32_t> Tokenizer::eos_id() const { return impl_->id_of_named(config().eos_token); }
std::optional<std::int32_t> Tokenizer::unk_id() const { return impl_->id_of_named(config().unk_token); }
std::optional<std::int32_t> Tokenizer::pad_id() const { return impl_->id_of_named(config().pad_token); }

Tokenizer Tokenizer::with_tokens(std::span<const std::pair<std::string, bool>> tokens) const {
  TokenizerSpec spec = impl_->spec;
  std::int32_t next = vocab_size();
  std::set<std::string> seen;
  for (const auto& [content, special] : tokens) {
    if (token_to_id(content).has_value() || !seen.insert(content).second) continue;
    INGOT_CHECK(!content.empty(), InvalidConfig("tokens", "names an empty token"));
    AddedToken added;
    added.id = next++;
    added.content = content;
    added.special = special;
    spec.added_tokens.push_back(std::move(added));
  }
  return Tokenizer(std::move(spec));
}

Tokenizer Tokenizer::with_config(TokenizerConfig config) const {
  TokenizerSpec spec = impl_->spec;
  spec.config = std::move(config);
  return Tokenizer(std::move(spec));
}

std::string Tokenizer::to_json() const { return write_tokenizer_json(impl_->spec); }

void Tokenizer::save(const std::filesystem::path& path) const {
  write_file_atomically(path.string(), to_json());
}

void Tokenizer::save_directory(const std::filesystem::path& directory) const {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  INGOT_CHECK(!error, IoError(directory.string(), "cannot make the directory: " + error.message()));
  save(directory / "tokenizer.json");
  write_file_atomically((directory / "tokenizer_config.json").string(), write_tokenizer_config(impl_->spec));
}

}  // namespace ingot::text
