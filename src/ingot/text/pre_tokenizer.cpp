#include "ingot/text/pre_tokenizer.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/text/byte_level.h"
#include "ingot/text/json_view.h"
#include "ingot/text/regex.h"
#include "ingot/text/replacement.h"
#include "ingot/text/splitting.h"
#include "ingot/text/unicode.h"

namespace ingot::text {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void PieceList::reset(std::string_view text, bool at_start) {
  pieces_.clear();
  kept_.clear();
  size_ = text.size();
  kept_bytes_ = 0;
  if (!text.empty()) pieces_.push_back({text, at_start});
}

std::string_view PieceList::keep(std::string text) {
  check_growth(kept_bytes_ += text.size(), size_);
  return kept_.emplace_back(std::move(text));
}

void PieceList::transform(FunctionRef<void(const Piece&)> transform) {
  next_.clear();
  for (const Piece& piece : pieces_) transform(piece);
  pieces_.swap(next_);
}

namespace {

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    if (use_regex) pattern_ = std::make_unique<Regex>(kGpt2Pattern, "pre_tokenizer");
  }
  void apply(PieceList& list) const override {
    list.transform([&](const Piece& piece) {
      std::string_view text = piece.text;
      if (add_prefix_space_ && text.front() != ' ') text = list.keep(" " + std::string(text));
      if (pattern_ == nullptr) return list.emit(mapped(list, text), piece.at_start);
      std::size_t done = 0;
      pattern_->for_each_match(text, [&](std::size_t begin, std::size_t end) {
        list.emit(mapped(list, text.substr(done, begin - done)), piece.at_start && done == 0);
        list.emit(mapped(list, text.substr(begin, end - begin)), piece.at_start && begin == 0);
        done = end;
      });
      list.emit(mapped(list, text.substr(done)), piece.at_start && done == 0);
    });
  }
  bool leave_bytes() override { return leave_bytes_ = true; }

 private:
  std::string_view mapped(PieceList& list, std::string_view text) const {
    if (leave_bytes_ || text.empty()) return text;
    std::string out;
    append_byte_level(out, text);
    return list.keep(std::move(out));
  }

  std::unique_ptr<Regex> pattern_;
  bool add_prefix_space_;
  bool leave_bytes_ = false;
};

class SplitPattern final : public PreTokenizer {
 public:
  explicit SplitPattern(const JsonView& config)
      : pattern_(compile_pattern(config.at("pattern"))),
        behavior_(parse_behavior(config.at("behavior"))),
        invert_(config.boolean("invert", false)) {}
  void apply(PieceList& list) const override {
    list.transform([&](const Piece& piece) {
      Splitter splitter(list, piece, behavior_, invert_);
      pattern_.for_each_match(piece.text,
                              [&](std::size_t begin, std::size_t end) { splitter.match(begin, end); });
      splitter.finish();
    });
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

/// Cuts wherever `matches(c)` holds for a character.
template <class Predicate>
void split_at_characters(PieceList& list, SplitBehavior behavior, Predicate matches) {
  list.transform([&](const Piece& piece) {
    Splitter splitter(list, piece, behavior, false);
    for (std::size_t i = 0; i < piece.text.size();) {
      const std::size_t begin = i;
      if (matches(decode_utf8(piece.text, i))) splitter.match(begin, i);
    }
    splitter.finish();
  });
}

/// A stage that needs nothing but a predicate over characters.
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(bool (*matches)(char32_t), SplitBehavior behavior)
      : matches_(matches), behavior_(behavior) {}
  void apply(PieceList& list) const override { split_at_characters(list, behavior_, matches_); }

 private:
  bool (*matches_)(char32_t);
  SplitBehavior behavior_;
};

class CharDelimiter final : public PreTokenizer {
 public:
  explicit CharDelimiter(char32_t delimiter) : delimiter_(delimiter) {}
  void apply(PieceList& list) const override {
    split_at_characters(list, SplitBehavior::removed, [&](char32_t c) { return c == delimiter_; });
  }

 private:
  char32_t delimiter_;
};

/// White space goes, punctuation stands alone (google-research/bert).
class Bert final : public PreTokenizer {
 public:
  void apply(PieceList& list) const override {
    split_at_characters(list, SplitBehavior::removed, is_white_space);
    split_at_characters(list, SplitBehavior::isolated, is_punctuation);
  }
};

/// The pieces are the matches of \w+|[^\w\s]+.
class Whitespace final : public PreTokenizer {
 public:
  void apply(PieceList& list) const override {
    list.transform([&](const Piece& piece) {
      enum { space, word, other };
      int kind = space;
      std::size_t begin = 0;
      const auto emit = [&](std::size_t end) {
        if (kind != space) list.emit(piece.text.substr(begin, end - begin), piece.at_start && begin == 0);
      };
      for (std::size_t i = 0; i < piece.text.size();) {
        const std::size_t here = i;
        const char32_t c = decode_utf8(piece.text, i);
        const int now = is_word_character(c) ? word : is_white_space(c) ? space : other;
        if (now == kind) continue;
        emit(here);
        kind = now;
        begin = here;
      }
      emit(piece.text.size());
    });
  }
};

/// SentencePiece's way: spaces become a visible character, which starts the next piece.
class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(const JsonView& config) : split_(config.boolean("split", true)) {
    character_ = config.has("replacement") ? config.at("replacement").character() : U'▁';
    append_utf8(replacement_, character_);
    scheme_ = config.string("prepend_scheme", "always");
    if (scheme_ != "always" && scheme_ != "first" && scheme_ != "never")
      config.at("prepend_scheme").fail(fmt::format("unknown scheme \"{}\"", scheme_));
    if (!config.boolean("add_prefix_space", true)) scheme_ = "never";
  }
  void apply(PieceList& list) const override {
    list.transform([&](const Piece& piece) {
      std::string text(piece.text);
      replace_all(text, " ", replacement_);
      const bool prepend = scheme_ == "always" || (scheme_ == "first" && piece.at_start);
      if (prepend && !text.starts_with(replacement_)) text.insert(0, replacement_);
      list.emit(list.keep(std::move(text)), piece.at_start);
    });
    if (split_)
      split_at_characters(list, SplitBehavior::merged_with_next, [&](char32_t c) { return c == character_; });
  }

 private:
  char32_t character_;
  std::string replacement_, scheme_;
  bool split_;
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(std::int64_t length) : length_(length) {}
  void apply(PieceList& list) const override {
    list.transform([&](const Piece& piece) {
      std::size_t begin = 0;
      std::int64_t count = 0;
      for (std::size_t i = 0; i < piece.text.size();) {
        i += utf8_length(piece.text[i]);
        if (++count < length_ && i < piece.text.size()) continue;
        list.emit(piece.text.substr(begin, i - begin), piece.at_start && begin == 0);
        begin = i;
        count = 0;
      }
    });
  }

 private:
  std::int64_t length_;
};

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(const JsonView& config) {
    for (const JsonView& item : config.at("pretokenizers").items())
      stages_.push_back(make_pre_tokenizer(item));
  }
  void apply(PieceList& list) const override {
    for (const auto& stage : stages_) stage->apply(list);
  }
  bool leave_bytes() override { return !stages_.empty() && stages_.back()->leave_bytes(); }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> stages_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonView& config) {
  const std::string type = config.string("type");
  if (type == "ByteLevel")
    return std::make_unique<ByteLevelPreTokenizer>(config.boolean("add_prefix_space", true),
                                                   config.boolean("use_regex", true));
  if (type == "Split") return std::make_unique<SplitPattern>(config);
  if (type == "Sequence") return std::make_unique<SequencePreTokenizer>(config);
  if (type == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(config);
  if (type == "BertPreTokenizer") return std::make_unique<Bert>();
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "WhitespaceSplit")
    return std::make_unique<CharacterSplit>(is_white_space, SplitBehavior::removed);
  if (type == "Punctuation")
    return std::make_unique<CharacterSplit>(is_punctuation, config.has("behavior")
                                                                ? parse_behavior(config.at("behavior"))
                                                                : SplitBehavior::isolated);
  if (type == "Digits")
    return std::make_unique<CharacterSplit>(is_numeric, config.boolean("individual_digits", false)
                                                            ? SplitBehavior::isolated
                                                            : SplitBehavior::contiguous);
  if (type == "CharDelimiterSplit")
    return std::make_unique<CharDelimiter>(config.at("delimiter").character());
  if (type == "FixedLength") {
    const std::int64_t length = config.has("length") ? config.at("length").integer() : 5;
    if (length < 1) config.at("length").fail(fmt::format("{} is not positive", length));
    return std::make_unique<FixedLength>(length);
  }
  config.fail(fmt::format("unknown pre-tokenizer \"{}\"", type));
}

}  // namespace ingot::text
