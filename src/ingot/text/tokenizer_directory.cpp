#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/utf8.h"
#include "ingot/text/bpe.h"
#include "ingot/text/json_view.h"
#include "ingot/text/json_write.h"
#include "ingot/text/sentencepiece.h"
#include "ingot/text/tokenizer_spec.h"
#include "ingot/text/wordpiece.h"

namespace ingot::text {

namespace fs = std::filesystem;

void mark_special(TokenizerSpec& spec, const std::string& token) {
  const auto same = [&](const AddedToken& t) { return t.content == token; };
  const std::int32_t id = spec.model->vocabulary().find(token);
  if (token.empty() || id < 0 || std::any_of(spec.added_tokens.begin(), spec.added_tokens.end(), same))
    return;
  AddedToken added;
  added.id = id;
  added.content = token;
  added.special = true;
  spec.added_tokens.push_back(std::move(added));
}

std::string bos_eos_template(const TokenizerSpec& spec, const std::string& bos, const std::string& eos) {
  if (bos.empty() && eos.empty()) return "null";
  const auto id_of = [&spec](const std::string& token) {
    const auto added = std::ranges::find(spec.added_tokens, token, &AddedToken::content);
    return added != spec.added_tokens.end() ? added->id : spec.model->vocabulary().find(token);
  };
  const auto special = [](const std::string& token, int type) {
    return fmt::format(R"({{"SpecialToken":{{"id":{},"type_id":{}}}}})", json_string(token), type);
  };
  const auto part = [&](char name, int type) {
    std::string out = bos.empty() ? "" : special(bos, type) + ",";
    out += fmt::format(R"({{"Sequence":{{"id":"{}","type_id":{}}}}})", name, type);
    return eos.empty() ? out : out + "," + special(eos, type);
  };
  std::string tokens;
  for (const std::string& token : {bos, eos}) {
    if (token.empty()) continue;
    const std::string text = json_string(token);
    tokens += fmt::format(R"({}{}:{{"id":{},"ids":[{}],"tokens":[{}]}})", tokens.empty() ? "" : ",", text,
                          text, id_of(token), text);
  }
  return fmt::format(
      R"({{"type":"TemplateProcessing","single":[{}],"pair":[{},{}],"special_tokens":{{{}}}}})", part('A', 0),
      part('A', 0), part('B', 1), tokens);
}

TokenizerSpec read_gpt2_files(const fs::path& vocab, const fs::path& merges) {
  TokenizerSpec spec;
  spec.source = vocab.string();
  Vocabulary vocabulary = parse_vocab_json(read_file(vocab.string()), vocab.string());
  const BpeOptions options;
  const std::string content = read_file(merges.string());
  MergeBuilder table(vocabulary, options,
                     static_cast<std::size_t>(std::count(content.begin(), content.end(), '\n')));
  std::int64_t line_number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    std::string_view line = std::string_view(content).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto offset = static_cast<std::int64_t>(begin);
    begin = end + 1;
    ++line_number;
    if (line.starts_with("#version") || line.empty()) continue;
    const std::string problem = table.add_line(line);
    INGOT_CHECK(problem.empty(),
                FormatError(merges.string(), offset, fmt::format("line {}", line_number), problem));
  }
  spec.pre_tokenizer =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  spec.post_processor = spec.pre_tokenizer;
  spec.decoder = spec.pre_tokenizer;
  if (const std::string_view token = "<|endoftext|>"; vocabulary.find(token) >= 0)
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = token;
  spec.model = std::make_shared<BpeModel>(std::move(vocabulary), table.take(), options);
  return spec;
}

TokenizerSpec read_vocab_txt(const fs::path& path, const JsonView* config) {
  TokenizerSpec spec;
  spec.source = path.string();
  const std::string content = read_file(path.string());
  INGOT_CHECK(is_valid_utf8(content), FormatError(spec.source, -1, "vocabulary", "is not UTF-8"));
  Vocabulary vocabulary;
  std::int32_t id = 0;
  for (std::size_t begin = 0; begin < content.size(); ++id) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    std::string_view line = std::string_view(content).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    // A token listed twice has the later id, as in `transformers`.
    if (vocabulary.add(line, id) != Vocabulary::Added::yes) vocabulary.add_again(line, id);
    begin = end + 1;
  }
  const auto flag = [&](const char* key, bool fallback) {
    return config != nullptr ? config->boolean(key, fallback) : fallback;
  };
  const bool lowercase = flag("do_lower_case", true);
  spec.normalizer = fmt::format(
      R"({{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":{},"strip_accents":{},"lowercase":{}}})",
      flag("tokenize_chinese_chars", true), flag("strip_accents", lowercase), lowercase);
  spec.pre_tokenizer = R"({"type":"BertPreTokenizer"})";
  spec.decoder = R"({"type":"WordPiece","prefix":"##","cleanup":true})";
  const std::int32_t cls = vocabulary.find("[CLS]"), sep = vocabulary.find("[SEP]");
  if (cls >= 0 && sep >= 0)
    spec.post_processor =
        fmt::format(R"({{"type":"BertProcessing","sep":["[SEP]",{}],"cls":["[CLS]",{}]}})", sep, cls);
  spec.config.unk_token = "[UNK]";
  spec.config.pad_token = "[PAD]";
  spec.model = std::make_shared<WordPieceModel>(std::move(vocabulary), WordPieceOptions{});
  for (const char* token : {"[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"}) mark_special(spec, token);
  return spec;
}

// What a SentencePiece model without normalization says.
constexpr const char* kPlainPrefix = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
                                     R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]})";

void add_sentencepiece_template(TokenizerSpec& spec, const std::string& kind, const JsonView* config) {
  for (const char* renumbered : {"XLMRoberta", "Camembert", "MBart", "Nllb", "Barthez", "XGLM"})
    INGOT_CHECK(
        !kind.starts_with(renumbered),
        FormatError(spec.source, -1, "tokenizer_class",
                    kind + " numbers the pieces in its own way; save the tokenizer as tokenizer.json first"));
  const bool llama = kind.starts_with("Llama") || kind.starts_with("CodeLlama") || kind.starts_with("Gemma");
  const auto flag = [&](const char* key, bool fallback) {
    return config != nullptr ? config->boolean(key, fallback) : fallback;
  };
  if (kind.starts_with("Llama") || kind.starts_with("CodeLlama") ||
      (kind.empty() && spec.normalizer == kPlainPrefix)) {
    // As transformers has it: ▁ stands before a text, in "legacy" tokenizers also behind each added token.
    spec.pre_tokenizer =
        fmt::format(R"({{"type":"Metaspace","replacement":"▁","prepend_scheme":"{}","split":false}})",
                    flag("legacy", false) ? "always" : "first");
    spec.normalizer = "null";
  }
  const bool bos = flag("add_bos_token", llama) && !spec.config.bos_token.empty();
  const bool eos = flag("add_eos_token", kind.starts_with("T5")) && !spec.config.eos_token.empty();
  spec.post_processor =
      bos_eos_template(spec, bos ? spec.config.bos_token : "", eos ? spec.config.eos_token : "");
}

TokenizerSpec read_tokenizer_directory(const fs::path& directory) {
  const auto path = [&](const char* name) { return directory / name; };
  const auto have = [&](const char* name) { return fs::exists(path(name)); };
  std::optional<JsonDocument> document;
  if (have("tokenizer_config.json"))
    document.emplace(read_file(path("tokenizer_config.json").string()),
                     path("tokenizer_config.json").string(), "");
  const std::optional<JsonView> config = document ? std::optional(document->root()) : std::nullopt;
  const JsonView* const settings = config ? &*config : nullptr;
  TokenizerSpec spec;
  bool sentencepiece = false;
  if (have("tokenizer.json")) {
    const std::string json = read_file(path("tokenizer.json").string()),
                      source = path("tokenizer.json").string();
    if (auto keras = read_keras_tokenizer(json, source)) return std::move(*keras);
    spec = parse_tokenizer_json(json, source);
  } else if (have("vocab.json") && have("merges.txt")) {
    spec = read_gpt2_files(path("vocab.json"), path("merges.txt"));
  } else if (have("vocab.txt")) {
    spec = read_vocab_txt(path("vocab.txt"), settings);
  } else {
    const auto models = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"};
    const auto* name = std::find_if(models.begin(), models.end(), have);
    INGOT_CHECK(name != models.end(),
                IoError(directory.string(),
                        "holds no tokenizer: expected tokenizer.json, vocab.json with merges.txt, "
                        "vocab.txt, tokenizer.model or spiece.model"));
    spec = parse_sentencepiece(read_file(path(*name).string()), path(*name).string());
    sentencepiece = true;
  }
  if (settings != nullptr) merge_tokenizer_config(spec.config, *settings);
  std::optional<JsonDocument> added;
  if (have("added_tokens.json"))
    added.emplace(read_file(path("added_tokens.json").string()), path("added_tokens.json").string(), "");
  const std::optional<JsonView> listed = added ? std::optional(added->root()) : std::nullopt;
  add_listed_tokens(spec, settings, listed ? &*listed : nullptr);
  if (have("chat_template.jinja"))
    spec.config.chat_template = read_file(path("chat_template.jinja").string());
  for (const std::string* token :
       {&spec.config.bos_token, &spec.config.eos_token, &spec.config.unk_token, &spec.config.pad_token})
    mark_special(spec, *token);
  if (sentencepiece)
    add_sentencepiece_template(
        spec, settings != nullptr ? settings->string("tokenizer_class", "") : std::string(), settings);
  return spec;
}

}  // namespace ingot::text
