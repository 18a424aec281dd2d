#include "ingot/text/decoder.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "ingot/base/utf8.h"
#include "ingot/text/byte_level.h"
#include "ingot/text/json_view.h"
#include "ingot/text/replacement.h"

namespace ingot::text {

namespace {

using Tokens = std::vector<std::string>;

class ByteLevelDecoder final : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) append_bytes_of(bytes, token);
    tokens.clear();
    tokens.push_back(std::move(bytes));
  }
  bool is_token_wise() const override { return true; }
};

/// Runs of "<0xNN>" become the text that their bytes spell, or one U+FFFD per byte when they spell none.
class ByteFallback final : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    Tokens out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (is_valid_utf8(bytes))
        out.push_back(bytes);
      else
        out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_of(token)) {
        bytes.push_back(*byte);
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  }

 private:
  static std::optional<char> byte_of(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    unsigned value = 0;
    const char* end = token.data() + 5;
    // "+A" is a number to the library, which reads it with a parser that takes signs.
    const char* begin = token.data() + (token[3] == '+' ? 4 : 3);
    const auto [stop, error] = std::from_chars(begin, end, value, 16);
    if (error != std::errc() || stop != end) return std::nullopt;
    return static_cast<char>(static_cast<unsigned char>(value));
  }
};

class Fuse final : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, all);
  }
};

/// Takes up to `start` and `stop` copies of a character off the ends of every token.
class StripDecoder final : public Decoder {
 public:
  explicit StripDecoder(const JsonView& config)
      : start_(config.at("start").integer()), stop_(config.at("stop").integer()) {
    append_utf8(content_, config.at("content").character());
  }
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      std::size_t begin = 0;
      for (std::int64_t i = 0; i < start_ && token.compare(begin, content_.size(), content_) == 0; ++i)
        begin += content_.size();
      token.erase(0, begin);
      for (std::int64_t i = 0; i < stop_ && token.ends_with(content_); ++i)
        token.resize(token.size() - content_.size());
    }
  }

 private:
  std::string content_;
  std::int64_t start_, stop_;
};

class ReplaceDecoder final : public Decoder {
 public:
  explicit ReplaceDecoder(const JsonView& config) : replacement_(config) {}
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) replacement_.apply(token);
  }

 private:
  Replacement replacement_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(const JsonView& config) {
    append_utf8(replacement_, config.has("replacement") ? config.at("replacement").character() : U'▁');
    const std::string scheme = config.string("prepend_scheme", "always");
    drop_first_ = scheme != "never" && config.boolean("add_prefix_space", true);
  }
  void apply(Tokens& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], replacement_, i == 0 && drop_first_ ? "" : " ");
  }

 private:
  std::string replacement_;
  bool drop_first_;
};

/// Takes back the spaces that tokenization has put before English punctuation and contractions.
void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

class WordPiece final : public Decoder {
 public:
  explicit WordPiece(const JsonView& config)
      : prefix_(config.string("prefix", "##")), cleanup_(config.boolean("cleanup", true)) {}
  void apply(Tokens& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) {
        if (tokens[i].starts_with(prefix_))
          tokens[i].erase(0, prefix_.size());
        else
          tokens[i].insert(tokens[i].begin(), ' ');
      }
      if (cleanup_) clean_up(tokens[i]);
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class Bpe final : public Decoder {
 public:
  explicit Bpe(const JsonView& config) : suffix_(config.string("suffix", "</w>")) {}
  void apply(Tokens& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

/// Connectionist temporal classification: repeated tokens count once, padding separates them.
class Ctc final : public Decoder {
 public:
  explicit Ctc(const JsonView& config)
      : pad_(config.string("pad_token", "<pad>")),
        delimiter_(config.string("word_delimiter_token", "|")),
        cleanup_(config.boolean("cleanup", true)) {}
  void apply(Tokens& tokens) const override {
    Tokens out;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i] == tokens[i - 1]) continue;
      std::string token = tokens[i];
      replace_all(token, pad_, "");
      if (cleanup_) {
        clean_up(token);
        replace_all(token, delimiter_, " ");
      }
      if (!token.empty()) out.push_back(std::move(token));
    }
    tokens = std::move(out);
  }

 private:
  std::string pad_, delimiter_;
  bool cleanup_;
};

class SequenceDecoder final : public Decoder {
 public:
  explicit SequenceDecoder(const JsonView& config) {
    for (const JsonView& item : config.at("decoders").items()) stages_.push_back(make_decoder(item));
  }
  void apply(Tokens& tokens) const override {
    const auto size_of = [](const Tokens& list) {
      std::size_t bytes = 0;
      for (const std::string& token : list) bytes += token.size();
      return bytes;
    };
    const std::size_t before = size_of(tokens);
    for (const auto& stage : stages_) {
      stage->apply(tokens);
      check_growth(size_of(tokens), before);
      if (&stage == &stages_.back()) return;
      for (std::string& token : tokens)
        if (!is_valid_utf8(token)) token = to_valid_utf8(token);
    }
  }
  bool is_token_wise() const override { return stages_.size() == 1 && stages_[0]->is_token_wise(); }

 private:
  std::vector<std::unique_ptr<Decoder>> stages_;
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const JsonView& config) {
  const std::string type = config.string("type");
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "Sequence") return std::make_unique<SequenceDecoder>(config);
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") return std::make_unique<StripDecoder>(config);
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(config);
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(config);
  if (type == "WordPiece") return std::make_unique<WordPiece>(config);
  if (type == "BPEDecoder") return std::make_unique<Bpe>(config);
  if (type == "CTC") return std::make_unique<Ctc>(config);
  config.fail(fmt::format("unknown decoder \"{}\"", type));
}

}  // namespace ingot::text
