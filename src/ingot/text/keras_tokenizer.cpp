#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/text/json_view.h"
#include "ingot/text/json_write.h"
#include "ingot/text/sentencepiece.h"
#include "ingot/text/tokenizer_spec.h"

// Presets of Keras-Hub (keras-team/keras-hub, src/tokenizers): tokenizer.json is a Keras configuration, and
// the vocabulary is one of vocabulary.json with merges.txt, vocabulary.txt, vocabulary.spm.
namespace ingot::text {

namespace {

namespace fs = std::filesystem;

/// Tokenizers of the library are larger, but for toys; these are parsed once more.
constexpr std::size_t kLargestConfig = 256 << 10;

/// Those whose text is cut as GPT-2 cuts it. Keras-Hub itself cuts all byte-level models alike, with a
/// pattern near GPT-2's (on TensorFlow) or with Llama 3's (without), whichever the model was trained with.
constexpr std::array<std::string_view, 5> kLikeGpt2{"GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer",
                                                    "OPTTokenizer", "BytePairTokenizer"};

class Preset {
 public:
  Preset(JsonView root, fs::path directory)
      : kind_(root.string("class_name")), config_(root.at("config")), directory_(std::move(directory)) {}

  TokenizerSpec read() const {
    if (const auto path = find("vocabulary.json")) return byte_pairs(*path);
    if (const auto path = find("vocabulary.txt")) return word_pieces(*path);
    if (const auto path = find("vocabulary.spm")) return sentence_pieces(*path);
    throw IoError(
        directory_.string(),
        fmt::format("is a Keras-Hub preset with a {}, but assets/tokenizer holds no vocabulary.json, "
                    "vocabulary.txt or vocabulary.spm",
                    kind_));
  }

 private:
  std::optional<fs::path> find(const char* name) const {
    for (const char* place : {"assets/tokenizer", "assets", "."}) {
      fs::path path = directory_ / place / name;
      if (fs::exists(path)) return path;
    }
    return std::nullopt;
  }

  TokenizerSpec byte_pairs(const fs::path& vocabulary) const {
    INGOT_CHECK(std::ranges::find(kLikeGpt2, kind_) != kLikeGpt2.end(),
                NotImplemented(fmt::format("{}: Keras-Hub's {}; of byte-level ones {} are read",
                                           config_.file(), kind_, fmt::join(kLikeGpt2, ", "))));
    const fs::path merges = vocabulary.parent_path() / "merges.txt";
    TokenizerSpec spec = read_gpt2_files(vocabulary, merges);
    if (config_.boolean("add_prefix_space", false)) {
      spec.pre_tokenizer =
          R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";
    }
    if (config_.has("unsplittable_tokens")) {
      for (const JsonView& token : config_.at("unsplittable_tokens").items())
        mark_special(spec, token.string());
    }
    mark_special(spec, spec.config.eos_token);
    return spec;
  }

  TokenizerSpec word_pieces(const fs::path& vocabulary) const {
    INGOT_CHECK(
        config_.boolean("split", true) && config_.string("suffix_indicator", "##") == "##" &&
            config_.string("oov_token", "[UNK]") == "[UNK]",
        NotImplemented(fmt::format(
            "{}: a WordPiece tokenizer with split false, or another suffix_indicator than '##', or another "
            "oov_token than '[UNK]'",
            config_.file())));
    TokenizerSpec spec = read_vocab_txt(vocabulary, nullptr);
    std::string steps;
    const auto add = [&steps](std::string_view step) {
      steps += fmt::format(R"({}{{"type":"{}"}})", steps.empty() ? "" : ",", step);
    };
    if (config_.boolean("strip_accents", false)) {
      add("NFD");
      add("StripAccents");
    }
    if (config_.boolean("lowercase", false)) add("Lowercase");
    spec.normalizer =
        steps.empty() ? "null" : fmt::format(R"({{"type":"Sequence","normalizers":[{}]}})", steps);
    // Unlike BERT's own, control characters part words, too.
    const auto split = [](std::string_view pattern, const char* behavior) {
      return fmt::format(R"({{"type":"Split","pattern":{{"Regex":{}}},"behavior":"{}","invert":false}})",
                         json_string(std::string(pattern)), behavior);
    };
    std::string kept = R"([!-/:-@\[-`{-~\p{P})";
    if (config_.boolean("split_on_cjk", true)) {
      kept += R"(\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F})"
              R"(\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F})";
    }
    spec.pre_tokenizer = fmt::format(R"({{"type":"Sequence","pretokenizers":[{},{}]}})",
                                     split(R"([\s\p{Cc}\p{Cf}]+)", "Removed"), split(kept + "]", "Isolated"));
    return spec;
  }

  TokenizerSpec sentence_pieces(const fs::path& model) const {
    TokenizerSpec spec = parse_sentencepiece(read_file(model.string()), model.string());
    for (const std::string* token :
         {&spec.config.bos_token, &spec.config.eos_token, &spec.config.unk_token, &spec.config.pad_token})
      mark_special(spec, *token);
    add_sentencepiece_template(spec, kind_, nullptr);
    return spec;
  }

  std::string kind_;  // "GPT2Tokenizer"
  JsonView config_;
  fs::path directory_;
};

}  // namespace

std::optional<TokenizerSpec> read_keras_tokenizer(std::string_view json, const std::string& source) {
  if (json.size() > kLargestConfig || json.find("\"class_name\"") == json.npos) return std::nullopt;
  const JsonDocument document(json, source, "");
  const JsonView root = document.root();
  if (!root.is_object() || root.has("model") || !root.has("class_name") || !root.has("config"))
    return std::nullopt;
  return Preset(root, fs::path(source).parent_path()).read();
}

}  // namespace ingot::text
