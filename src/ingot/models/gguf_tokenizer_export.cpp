#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/text/charsmap.h"
#include "ingot/text/sentencepiece.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;
using text::SentencePiece;

/// The lists under construction; ids without a token stay what llama.cpp calls unused.
struct Lists {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<float> scores;

  void put(std::size_t id, std::string token, std::int32_t type, float score = 0) {
    if (id >= tokens.size()) return;  // beyond the rows of the embedding
    tokens[id] = std::move(token);
    types[id] = type;
    scores[id] = score;
  }
};

Lists empty_lists(std::int64_t rows) {
  Lists lists;
  const auto count = static_cast<std::size_t>(rows);
  lists.tokens.resize(count);
  lists.types.resize(count, SentencePiece::kUnused);
  lists.scores.resize(count, 0);
  for (std::size_t i = 0; i < count; ++i) lists.tokens[i] = "[PAD" + std::to_string(i) + "]";
  return lists;
}

void put_added_tokens(const Json& tokenizer, Lists& lists) {
  for (const Json& token : tokenizer.value("added_tokens", Json::array())) {
    lists.put(token["id"].get<std::size_t>(), token["content"].get<std::string>(),
              token.value("special", false) ? SentencePiece::kControl : SentencePiece::kUserDefined);
  }
}

// The first stage of this kind, or null.
const Json* find_stage(const Json& stage, const std::string& type) {
  if (!stage.is_object()) return nullptr;
  if (stage.value("type", "") == type) return &stage;
  for (const char* list : {"normalizers", "pretokenizers"}) {
    if (!stage.contains(list)) continue;
    for (const Json& inner : stage[list]) {
      if (const Json* found = find_stage(inner, type)) return found;
    }
  }
  return nullptr;
}

/// The regular expressions and the kind of every stage of a pre-tokenizer.
text::GgufPreTokenizer stages_of(const Json& pre_tokenizer) {
  text::GgufPreTokenizer found;
  const Json stages = pre_tokenizer.is_object() && pre_tokenizer.contains("pretokenizers")
                          ? pre_tokenizer["pretokenizers"]
                          : Json::array({pre_tokenizer});
  for (const Json& stage : stages) {
    const std::string type = stage.is_object() ? stage.value("type", "") : "";
    if (type == "ByteLevel") {
      found.byte_level = true;
      found.gpt2_pattern = stage.value("use_regex", true);
    }
    if (type == "Digits") found.digits = true;
    if (type == "Split" && stage["pattern"].contains("Regex"))
      found.patterns.push_back(stage["pattern"]["Regex"]);
  }
  return found;
}

void set_lists(Lists lists, const std::string& model, GgufMetadata& metadata) {
  metadata.set("tokenizer.ggml.model", GgufValue::of_string(model));
  metadata.set("tokenizer.ggml.tokens", GgufValue::of_strings(std::move(lists.tokens)));
  if (model == "llama" || model == "t5")
    metadata.set("tokenizer.ggml.scores", GgufValue::of_f32s(lists.scores));
  metadata.set("tokenizer.ggml.token_type", GgufValue::of_i32s(lists.types));
}

std::vector<std::string> merges_of(const Json& model) {
  std::vector<std::string> merges;
  merges.reserve(model["merges"].size());
  for (const Json& merge : model["merges"]) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return merges;
}

bool write_byte_level(const Json& tokenizer, std::int64_t rows, GgufMetadata& metadata) {
  const Json& model = tokenizer["model"];
  if (model.value("type", "") != "BPE") return false;
  const Json stages = tokenizer.value("pre_tokenizer", Json());
  const Json* level = find_stage(stages, "ByteLevel");
  // llama.cpp puts no space before a text.
  if (level != nullptr && level->value("add_prefix_space", true)) return false;
  const auto pre = text::gguf_pre_tokenizer_name(stages_of(stages));
  if (!pre) return false;
  Lists lists = empty_lists(rows);
  for (const auto& [token, id] : model["vocab"].items()) lists.put(id, token, SentencePiece::kNormal);
  put_added_tokens(tokenizer, lists);
  set_lists(std::move(lists), "gpt2", metadata);
  metadata.set("tokenizer.ggml.pre", GgufValue::of_string(*pre));
  metadata.set("tokenizer.ggml.merges", GgufValue::of_strings(merges_of(model)));
  return true;
}

bool write_pieces(const std::string& path, const Json& tokenizer, std::int64_t rows, GgufMetadata& metadata) {
  if (!std::filesystem::exists(path)) return false;
  const std::string bytes = read_file(path);
  const text::SentencePieceModel model = text::read_sentencepiece(bytes, path);
  if (model.kind != text::SentencePieceModel::kBpe) return false;
  Lists lists = empty_lists(rows);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    lists.put(id, piece.text, static_cast<std::int32_t>(piece.type), piece.score);
  }
  put_added_tokens(tokenizer, lists);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {  // <unk> is not just any control token
    if (model.pieces[id].type == SentencePiece::kUnknown) lists.types[id] = SentencePiece::kUnknown;
  }
  set_lists(std::move(lists), "llama", metadata);
  metadata.set("tokenizer.ggml.add_space_prefix", GgufValue::of_bool(model.add_dummy_prefix));
  return true;
}

// How a tokenizer.json treats spaces where it is SentencePiece's BPE, as transformers saves Llama's,
// Mistral's and Gemma's.
struct Spaces {
  bool replaced = false;  // by U+2581
  bool prefix = false;    // one before a text
};

void note_spaces(const Json& stage, Spaces& spaces) {
  if (!stage.is_object()) return;
  for (const char* list : {"normalizers", "pretokenizers"}) {
    for (const Json& inner : stage.value(list, Json::array())) note_spaces(inner, spaces);
  }
  const std::string type = stage.value("type", "");
  if (type == "Prepend") spaces.prefix = true;
  if (type == "Replace" && stage.contains("pattern") && stage["pattern"].value("String", "") == " ")
    spaces.replaced = true;
  if (type != "Metaspace") return;
  spaces.replaced = true;
  spaces.prefix =
      stage.value("prepend_scheme", stage.value("add_prefix_space", true) ? "always" : "never") != "never";
}

// <0x0A>
bool is_byte_token(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
}

std::int32_t type_of_piece(const Json& model, const std::string& token) {
  const bool byte = model.value("byte_fallback", false) && is_byte_token(token);
  return byte ? SentencePiece::kByte : SentencePiece::kNormal;
}

// Files of Gemma 4 have the merges themselves, and no scores.
bool write_gemma4(const Json& tokenizer, std::int64_t rows, GgufMetadata& metadata) {
  const Json& model = tokenizer["model"];
  Spaces spaces;
  note_spaces(tokenizer.value("normalizer", Json()), spaces);
  if (metadata.text("general.architecture") != "gemma4" || model.value("type", "") != "BPE" ||
      !model.value("byte_fallback", false) || !spaces.replaced || spaces.prefix)
    return false;
  Lists lists = empty_lists(rows);
  for (const auto& [token, id] : model["vocab"].items()) lists.put(id, token, type_of_piece(model, token));
  put_added_tokens(tokenizer, lists);
  set_lists(std::move(lists), "gemma4", metadata);
  metadata.set("tokenizer.ggml.merges", GgufValue::of_strings(merges_of(model)));
  metadata.set("tokenizer.ggml.add_space_prefix", GgufValue::of_bool(false));
  return true;
}

// A token's score is what llama.cpp joins by: the sooner a merge makes it, the higher.
bool write_merged_pieces(const Json& tokenizer, std::int64_t rows, GgufMetadata& metadata) {
  const Json& model = tokenizer["model"];
  if (model.value("type", "") != "BPE" || stages_of(tokenizer.value("pre_tokenizer", Json())).byte_level)
    return false;
  Spaces spaces;
  note_spaces(tokenizer.value("normalizer", Json()), spaces);
  note_spaces(tokenizer.value("pre_tokenizer", Json()), spaces);
  Lists lists = empty_lists(rows);
  std::map<std::string, std::size_t> ids;
  for (const auto& [token, id] : model["vocab"].items()) {
    lists.put(id, token, type_of_piece(model, token), -1e6F);
    ids.emplace(token, id.get<std::size_t>());
  }
  float score = 0;
  for (const Json& merge : model["merges"]) {
    const std::string pair = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t gap = pair.find(' ');
    const std::string whole = merge.is_string() ? pair.substr(0, gap) + pair.substr(gap + 1)
                                                : merge[0].get<std::string>() + merge[1].get<std::string>();
    const auto found = ids.find(whole);
    if (found == ids.end() || found->second >= lists.scores.size()) continue;
    if (lists.scores[found->second] == -1e6F) lists.scores[found->second] = score;
    score -= 1;
  }
  put_added_tokens(tokenizer, lists);
  const std::string unknown = model["unk_token"].is_string() ? model["unk_token"].get<std::string>() : "";
  if (const auto found = ids.find(unknown); found != ids.end() && found->second < lists.types.size())
    lists.types[found->second] = SentencePiece::kUnknown;
  set_lists(std::move(lists), "llama", metadata);
  metadata.set("tokenizer.ggml.add_space_prefix", GgufValue::of_bool(spaces.prefix));
  return true;
}

// BERT's: what begins a word has U+2581 in front, what continues one has no mark.
bool write_word_pieces(const Json& tokenizer, std::int64_t rows, GgufMetadata& metadata) {
  const Json& model = tokenizer["model"];
  if (model.value("type", "") != "WordPiece") return false;
  const std::string mark = model.value("continuing_subword_prefix", "##");
  Lists lists = empty_lists(rows);
  for (const auto& [token, id] : model["vocab"].items())
    lists.put(id, token.starts_with(mark) ? token.substr(mark.size()) : "\u2581" + token,
              SentencePiece::kNormal);
  put_added_tokens(tokenizer, lists);
  set_lists(std::move(lists), "bert", metadata);
  const Json normalizer = tokenizer.value("normalizer", Json());
  if (!normalizer.is_object() || normalizer.value("type", "") != "BertNormalizer") return true;
  const bool lowercase = normalizer.value("lowercase", true);
  const Json strip = normalizer.value("strip_accents", Json());
  metadata.set("tokenizer.ggml.normalizer.lowercase", GgufValue::of_bool(lowercase));
  metadata.set("tokenizer.ggml.normalizer.strip_accents",
               GgufValue::of_bool(strip.is_boolean() ? strip.get<bool>() : lowercase));
  return true;
}

GgufValue of_bytes(const std::string& bytes) {
  std::vector<std::uint64_t> items;
  items.reserve(bytes.size());
  for (const char byte : bytes) items.push_back(static_cast<unsigned char>(byte));
  return {.type = GgufType::u8, .is_array = true, .items = std::move(items)};
}

// Unigram models, as T5 and XLM-RoBERTa have them.
bool write_unigram(const Json& tokenizer, std::int64_t rows, GgufMetadata& metadata) {
  const Json& model = tokenizer["model"];
  if (model.value("type", "") != "Unigram" || model.value("byte_fallback", false)) return false;
  const Json normalizer = tokenizer.value("normalizer", Json());
  const Json* charsmap = find_stage(normalizer, "Precompiled");
  Lists lists = empty_lists(rows);
  std::size_t id = 0;
  for (const Json& piece : model["vocab"])
    lists.put(id++, piece[0].get<std::string>(), SentencePiece::kNormal, piece[1].get<float>());
  const std::vector<float> scores = lists.scores;
  put_added_tokens(tokenizer, lists);
  lists.scores = scores;
  if (model["unk_id"].is_number() && model["unk_id"].get<std::size_t>() < lists.types.size())
    lists.types[model["unk_id"].get<std::size_t>()] = SentencePiece::kUnknown;
  set_lists(std::move(lists), "t5", metadata);
  Spaces spaces;
  note_spaces(normalizer, spaces);
  note_spaces(tokenizer.value("pre_tokenizer", Json()), spaces);
  metadata.set("tokenizer.ggml.add_space_prefix", GgufValue::of_bool(spaces.prefix));
  metadata.set("tokenizer.ggml.remove_extra_whitespaces", GgufValue::of_bool(true));
  std::string bytes;
  if (charsmap != nullptr && text::decode_base64(charsmap->value("precompiled_charsmap", ""), bytes) &&
      !bytes.empty())
    metadata.set("tokenizer.ggml.precompiled_charsmap", of_bytes(bytes));
  return true;
}

void set_id(GgufMetadata& metadata, const char* key, std::optional<std::int32_t> id) {
  if (id)
    metadata.set(std::string("tokenizer.ggml.") + key, GgufValue::of_u32(static_cast<std::uint32_t>(*id)));
}

// What encoders put around a text: [CLS] and [SEP], <s> and </s>. Decoders' files say it of BOS alone.
void write_frame(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& around,
                 GgufMetadata& metadata) {
  if (around.size() < 2 || !tokenizer.is_special(around.back())) return;
  const bool both = around.size() > 2 && tokenizer.is_special(around.front());
  if (both) {
    set_id(metadata, "bos_token_id", around.front());
    set_id(metadata, "cls_token_id", around.front());
    set_id(metadata, "seperator_token_id", around.back());  // the key is spelled so
    metadata.set("tokenizer.ggml.add_bos_token", GgufValue::of_bool(true));
    metadata.set("tokenizer.ggml.add_sep_token", GgufValue::of_bool(true));
  }
  set_id(metadata, "eos_token_id", around.back());
  metadata.set("tokenizer.ggml.add_eos_token", GgufValue::of_bool(true));
  for (const char* mask : {"[MASK]", "<mask>"}) {
    if (const auto id = tokenizer.token_to_id(mask); id && both) set_id(metadata, "mask_token_id", id);
  }
}

}  // namespace

bool write_gguf_tokenizer(const std::string& directory, std::int64_t rows, GgufMetadata& metadata) {
  if (!has_tokenizer(directory)) return false;
  const text::Tokenizer tokenizer = open_tokenizer(directory);
  const std::string text = tokenizer.to_json();
  const Json json = parse_json<Json>(text, directory + "/tokenizer.json");
  const bool lists = write_byte_level(json, rows, metadata) || write_gemma4(json, rows, metadata) ||
                     write_pieces(directory + "/tokenizer.model", json, rows, metadata) ||
                     write_merged_pieces(json, rows, metadata) || write_word_pieces(json, rows, metadata) ||
                     write_unigram(json, rows, metadata);
  set_id(metadata, "bos_token_id", tokenizer.bos_id());
  set_id(metadata, "eos_token_id", tokenizer.eos_id());
  set_id(metadata, "unknown_token_id", tokenizer.unk_id());
  set_id(metadata, "padding_token_id", tokenizer.pad_id());
  const auto around = tokenizer.encode("a");
  const bool bos = tokenizer.bos_id() && !around.empty() && around.front() == *tokenizer.bos_id();
  metadata.set("tokenizer.ggml.add_bos_token", GgufValue::of_bool(bos));
  write_frame(tokenizer, around, metadata);
  if (!tokenizer.config().chat_template.empty()) {
    metadata.set("tokenizer.chat_template", GgufValue::of_string(tokenizer.config().chat_template));
  }
  // All of it, for readers that know the key: no list says everything that tokenizer.json does.
  metadata.set("tokenizer.huggingface.json", GgufValue::of_string(text));
  return lists;
}

}  // namespace ingot
