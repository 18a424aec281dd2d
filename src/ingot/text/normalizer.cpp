#include "ingot/text/normalizer.h"

#include <optional>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/utf8.h"
#include "ingot/text/byte_level.h"
#include "ingot/text/charsmap.h"
#include "ingot/text/json_view.h"
#include "ingot/text/replacement.h"
#include "ingot/text/unicode.h"

namespace ingot::text {

namespace {

/// Rewrites character by character: emit(c) for what replaces one.
template <class Rewrite>
void rewrite(std::string& text, Rewrite rewrite_character) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = decode_utf8(text, i);
    rewrite_character(c, [&](char32_t replacement) { append_utf8(out, replacement); });
  }
  text = std::move(out);
}

/// google-research/bert, tokenization.py: BasicTokenizer, without its splitting.
class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const JsonView& config)
      : clean_text_(config.boolean("clean_text", true)),
        chinese_(config.boolean("handle_chinese_chars", true)),
        lowercase_(config.boolean("lowercase", true)),
        strip_accents_(config.boolean("strip_accents", lowercase_)) {}
  void apply(std::string& text) const override {
    if (clean_text_ || chinese_) rewrite(text, [&](char32_t c, auto emit) { clean(c, emit); });
    if (strip_accents_ && !is_ascii(text)) {
      normalize_unicode(text, NormalForm::nfd);
      rewrite(text, [](char32_t c, auto emit) {
        if (!is_nonspacing_mark(c)) emit(c);
      });
    }
    if (lowercase_) lower_case(text);
  }

 private:
  template <class Emit>
  void clean(char32_t c, Emit emit) const {
    if (clean_text_) {
      if (c == '\t' || c == '\n' || c == '\r') return emit(U' ');
      if (c == 0 || c == kReplacementCharacter || is_control(c)) return;
      if (is_white_space(c)) return emit(U' ');
    }
    if (!chinese_ || !is_chinese(c)) return emit(c);
    emit(U' ');
    emit(c);
    emit(U' ');
  }

  bool clean_text_, chinese_, lowercase_, strip_accents_;
};

/// The rules that SentencePiece took over from its neural machine translation systems.
class Nmt final : public Normalizer {
 public:
  void apply(std::string& text) const override {
    rewrite(text, [](char32_t c, auto emit) {
      if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
        return;
      const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                         c == 0xFEFF || c == 0xFFFD;
      emit(space ? U' ' : c);
    });
  }
};

class Unicode final : public Normalizer {
 public:
  explicit Unicode(NormalForm form) : form_(form) {}
  void apply(std::string& text) const override { normalize_unicode(text, form_); }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  void apply(std::string& text) const override { lower_case(text); }
};

class StripAccents final : public Normalizer {
 public:
  void apply(std::string& text) const override {
    rewrite(text, [](char32_t c, auto emit) {
      if (!is_mark(c)) emit(c);
    });
  }
};

class StripNormalizer final : public Normalizer {
 public:
  explicit StripNormalizer(const JsonView& config)
      : left_(config.boolean("strip_left", true)), right_(config.boolean("strip_right", true)) {}
  void apply(std::string& text) const override {
    std::optional<std::size_t> first;
    std::size_t last = 0;  // where the last character that stays ends
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t begin = i;
      if (is_white_space(decode_utf8(text, i))) continue;
      if (!first) first = begin;
      last = i;
    }
    if (right_) text.resize(first ? last : 0);
    if (left_) text.erase(0, first ? *first : text.size());
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  explicit ReplaceNormalizer(const JsonView& config) : replacement_(config) {}
  void apply(std::string& text) const override { replacement_.apply(text); }

 private:
  Replacement replacement_;
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}
  void apply(std::string& text) const override { map_.apply(text); }

 private:
  Charsmap map_;
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  void apply(std::string& text) const override {
    std::string out;
    append_byte_level(out, text);
    text = std::move(out);
  }
};

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(const JsonView& config) {
    for (const JsonView& item : config.at("normalizers").items()) stages_.push_back(make_normalizer(item));
  }
  void apply(std::string& text) const override {
    const std::size_t before = text.size();
    for (const auto& stage : stages_) {
      stage->apply(text);
      check_growth(text.size(), before);
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> stages_;
};

/// Leaves text as it is: an SentencePiece model without rules has an empty charsmap.
class Nothing final : public Normalizer {
 public:
  void apply(std::string&) const override {}
};

std::unique_ptr<Normalizer> make_precompiled(const JsonView& config) {
  if (!config.has("precompiled_charsmap")) return std::make_unique<Nothing>();
  const JsonView field = config.at("precompiled_charsmap");
  std::string bytes;
  if (!decode_base64(field.string(), bytes)) field.fail("is not base64");
  if (bytes.empty()) return std::make_unique<Nothing>();
  return std::make_unique<Precompiled>(Charsmap(bytes, field.file() + ": " + field.field()));
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonView& config) {
  const std::string type = config.string("type");
  if (type == "Sequence") return std::make_unique<SequenceNormalizer>(config);
  if (type == "BertNormalizer") return std::make_unique<BertNormalizer>(config);
  if (type == "NFC") return std::make_unique<Unicode>(NormalForm::nfc);
  if (type == "NFD") return std::make_unique<Unicode>(NormalForm::nfd);
  if (type == "NFKC") return std::make_unique<Unicode>(NormalForm::nfkc);
  if (type == "NFKD") return std::make_unique<Unicode>(NormalForm::nfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Strip") return std::make_unique<StripNormalizer>(config);
  if (type == "Prepend") return std::make_unique<Prepend>(config.string("prepend"));
  if (type == "Replace") return std::make_unique<ReplaceNormalizer>(config);
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "Precompiled") return make_precompiled(config);
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  config.fail(fmt::format("unknown normalizer \"{}\"", type));
}

}  // namespace ingot::text
