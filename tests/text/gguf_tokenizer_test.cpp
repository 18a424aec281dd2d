#include "ingot/text/gguf_tokenizer.h"

#include "tests/support/source_dir.h"
#include "tests/text/support.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/text/charsmap.h"
#include "ingot/text/chat_template.h"
#include "ingot/text/sentencepiece.h"
#include "ingot/text/tokenizer_spec.h"

namespace ingot::text {
namespace {

using nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

ordered_json read_json(const std::string& name) {
  const std::string path = test::source_dir() + "/tests/text/" + name;
  return parse_json<ordered_json>(read_file(path), path);
}

/// The lists that llama.cpp's converter writes for a tokenizer.json.
GgufVocabulary vocabulary_of(const ordered_json& tokenizer, const std::string& pre) {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = pre;
  const auto put = [&v](std::size_t id, const std::string& token, std::int64_t type) {
    if (v.tokens.size() <= id) {
      v.tokens.resize(id + 1);
      v.types.resize(id + 1, SentencePiece::kUnused);
    }
    v.tokens[id] = token;
    v.types[id] = type;
  };
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) put(id, token, SentencePiece::kNormal);
  for (const auto& token : tokenizer["added_tokens"]) {
    put(token["id"], token["content"],
        token["special"] ? SentencePiece::kControl : SentencePiece::kUserDefined);
  }
  for (std::size_t id = 0; id < v.tokens.size(); ++id) {  // rows of the embedding without a token
    if (v.types[id] == SentencePiece::kUnused) v.tokens[id] = "[PAD" + std::to_string(id) + "]";
  }
  for (const auto& merge : tokenizer["model"]["merges"]) {
    v.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return v;
}

struct Case {
  std::string golden, pre, bos;
};

class GgufByteLevel : public testing::TestWithParam<Case> {};

TEST_P(GgufByteLevel, GivesTheIdsOfTheTokenizerJsonItWasMadeFrom) {
  const ordered_json golden = read_json("goldens/" + GetParam().golden + ".json");
  const ordered_json texts = read_json("goldens/texts.json");
  ordered_json tokenizer_json = golden.value("tokenizer", ordered_json());
  if (tokenizer_json.is_null()) {  // the real GPT-2
    const auto path = data_path("tokenizers/gpt2");
    INGOT_REQUIRE_DATA(path);
    tokenizer_json = parse_json<ordered_json>(Tokenizer::from_directory(path).to_json(), "the test");
  }
  GgufVocabulary v = vocabulary_of(tokenizer_json, GetParam().pre);
  const auto bos = std::find(v.tokens.begin(), v.tokens.end(), GetParam().bos);
  if (bos != v.tokens.end()) v.bos = bos - v.tokens.begin();
  const Tokenizer tokenizer(make_gguf_tokenizer(v, "x.gguf"));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i];
    SCOPED_TRACE(dump_json(texts[i]));
    const Ids plain = golden["cases"][i]["ids"];
    EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = false}), plain);
    EXPECT_EQ(tokenizer.encode(text), golden["cases"][i].value("with_special", plain));
    EXPECT_EQ(tokenizer.decode(plain, false), golden["cases"][i].value("decoded", text));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GgufByteLevel,
                         testing::Values(Case{"gpt2", "gpt-2", ""}, Case{"qwen2", "qwen2", ""},
                                         Case{"deepseek3", "deepseek-v3", ""}, Case{"gpt4o", "gpt-4o", ""},
                                         Case{"llama3", "llama-bpe", "<|begin_of_text|>"}),
                         [](const auto& param) { return param.param.golden; });

TEST(GgufTokenizer, ChatsBeginWithOneBosWhereTheFileAddsIt) {
  const std::string turns = "{% for m in messages %}{{ m.content }}{% endfor %}";
  GgufVocabulary v{.model = "llama",
                   .pre = {},
                   .tokens = {"<s>", "a", "b", "<unk>"},
                   .merges = {},
                   .scores = {0, -1, -2, 0},
                   .types = {SentencePiece::kControl, SentencePiece::kNormal, SentencePiece::kNormal,
                             SentencePiece::kUnknown},
                   .bos = 0,
                   .unk = 3};
  const auto rendered = [&](const std::string& chat_template, std::optional<bool> add_bos) {
    v.chat_template = chat_template;
    v.add_bos = add_bos;
    const TokenizerSpec spec = make_gguf_tokenizer(v, "x.gguf");
    return ChatTemplate(spec.config.chat_template)
        .render({.messages = messages_json({{.role = "user", .content = "ab"}}), .bos_token = "<s>"});
  };
  EXPECT_EQ(rendered(turns, true), "<s>ab");
  EXPECT_EQ(rendered(turns, {}), "<s>ab") << "which llama.cpp does for this kind";
  EXPECT_EQ(rendered(turns, false), "ab");
  EXPECT_EQ(rendered("{{ bos_token }}" + turns, true), "<s>ab");
  EXPECT_EQ(rendered("{{ bos_token }}" + turns, false), "<s>ab");
  EXPECT_EQ(rendered("<s>" + turns, true), "<s>ab");
  v.chat_template = "{{ raise_exception('no') }}";
  EXPECT_EQ(make_gguf_tokenizer(v, "x.gguf").config.chat_template, v.chat_template);
}

TEST(GgufTokenizer, SentencePieceListsGiveTheIdsOfTheLibrary) {
  const ordered_json golden = read_json("sentencepiece_goldens.json");
  const auto& model = golden["models"][0];
  std::string bytes;
  ASSERT_TRUE(decode_base64(model["model"].get<std::string>(), bytes));
  const SentencePieceModel pieces = read_sentencepiece(bytes, "tokenizer.model");
  ASSERT_EQ(pieces.kind, SentencePieceModel::kBpe);
  GgufVocabulary v;
  v.model = "llama";
  for (const SentencePiece& piece : pieces.pieces) {
    v.tokens.push_back(piece.text);
    v.scores.push_back(piece.score);
    v.types.push_back(static_cast<std::int64_t>(piece.type));
  }
  v.add_space_prefix = pieces.add_dummy_prefix;
  v.bos = 1;
  v.eos = 2;
  const Tokenizer tokenizer(make_gguf_tokenizer(v, "x.gguf"));
  for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
    const std::string text = golden["texts"][i];
    SCOPED_TRACE(dump_json(golden["texts"][i]));
    Ids expected = model["ids"][i];
    EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = false, .split_special_tokens = true}), expected);
    expected.insert(expected.begin(), 1);  // <s>, which Llama's files ask for
    EXPECT_EQ(tokenizer.encode(text, {.split_special_tokens = true}), expected);
  }
  EXPECT_EQ(tokenizer.eos_id(), 2);
}

// "5" and "67" are tokens, as are " a" and the like: what a pre-tokenizer cuts shows in the ids.
std::vector<std::string> tokens_of(const std::string& pre, const std::string& text) {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = pre;
  for (const char* token : {"1",  "2", "3",  "4", "12", "34", "123", "1234", "x",  "y",  "xy", "'", "s",
                            "'s", "Ġ", "Ġx", "Ċ", "ĊĊ", "-",  "--",  "X",    "Xx", "xX", "S",  "'S"})
    v.tokens.emplace_back(token);
  v.merges = {"1 2", "3 4", "12 3", "12 34", "x y", "' s", "Ġ x", "Ċ Ċ", "- -", "X x", "x X", "' S"};
  const Tokenizer tokenizer(make_gguf_tokenizer(v, "x.gguf"));
  std::vector<std::string> tokens;
  for (const std::int32_t id : tokenizer.encode(text, {.add_special_tokens = false}))
    tokens.emplace_back(tokenizer.id_to_token(id));
  return tokens;
}

TEST(GgufTokenizer, NamesOfPreTokenizersCutAsTheyDoInLlamaCpp) {
  using Tokens = std::vector<std::string>;
  for (const char* pre : {"phi-2", "jina-v2-code", "mellum", "trillion", "exaone4"})
    EXPECT_EQ(tokens_of(pre, "1234"), (Tokens{"1234"})) << pre;
  for (const char* pre :
       {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe", "falcon3", "pixtral", "lfm2", "llama4", "minimax-m2",
        "hunyuan-dense", "kimi-k2", "minicpm5", "jais-2", "falcon", "default", ""})
    EXPECT_EQ(tokens_of(pre, "1234"), (Tokens{"123", "4"})) << pre;
  for (const char* pre : {"afmoe", "tiny_aya", "cohere2moe"})
    EXPECT_EQ(tokens_of(pre, "1234"), (Tokens{"1", "2", "34"})) << pre;
  for (const char* pre : {"stablelm2", "megrez", "hunyuan", "qwen35", "grok-2", "command-r", "codeshell",
                          "viking", "deepseek-coder", "chameleon", "bailingmoe2", "seed-coder", "ufakzeka",
                          "exaone-moe", "laguna", "youtu", "spark2_5", "minerva-7b"})
    EXPECT_EQ(tokens_of(pre, "12"), (Tokens{"1", "2"})) << pre;
  for (const char* pre : {"bloom", "poro-chat", "gpt3-finnish", "deepseek-llm", "superbpe"})
    EXPECT_EQ(tokens_of(pre, "12"), (Tokens{"12"})) << pre;
  EXPECT_EQ(tokens_of("dbrx", "x'S"), (Tokens{"x", "'S"}));
  EXPECT_EQ(tokens_of("command-r", "x'S"), (Tokens{"x", "'", "S"}));
  EXPECT_EQ(tokens_of("gpt-4o", "xX"), (Tokens{"x", "X"}));
  EXPECT_EQ(tokens_of("dbrx", "xX"), (Tokens{"xX"}));
  EXPECT_EQ(tokens_of("bloom", "x--"), (Tokens{"x", "--"}));
  EXPECT_EQ(tokens_of("laguna", "\n\n"), (Tokens{"ĊĊ"}));
}

TEST(GgufTokenizer, Gemma4TakesTextAsSentencePieceDoes) {
  GgufVocabulary v;
  v.model = "gemma4";
  v.tokens = {"<unk>", "a", "▁", "▁a", "<0xC3>", "<0xA9>"};
  v.types = {2, 1, 1, 1, 6, 6};
  v.merges = {"▁ a"};
  const Tokenizer tokenizer(make_gguf_tokenizer(v, "x.gguf"));
  const Ids ids{1, 3, 4, 5};
  EXPECT_EQ(tokenizer.encode("a aé", {.add_special_tokens = false}), ids);
  EXPECT_EQ(tokenizer.decode(ids), "a aé");
}

TEST(GgufTokenizer, ListsThatDoNotBelongTogetherAreRefused) {
  const auto refused = [](const GgufVocabulary& v) {
    try {
      make_gguf_tokenizer(v, "x.gguf");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  GgufVocabulary v;
  v.model = "gpt2";
  EXPECT_NE(refused(v).find("tokenizer.ggml.tokens: is missing"), std::string::npos);
  v.tokens = {"a", "b"};
  v.types = {1};
  EXPECT_NE(refused(v).find("tokenizer.ggml.token_type: has 1 entries for 2 tokens"), std::string::npos);
  v.types = {};
  v.merges = {"a c"};
  EXPECT_NE(refused(v).find("tokenizer.ggml.merges[0]"), std::string::npos);
  v.merges = {};
  v.bos = 2;
  EXPECT_NE(refused(v).find("tokenizer.ggml.bos_token_id: is 2, but there are 2 tokens"), std::string::npos);
  v.bos = {};
  v.pre = "no-such";
  EXPECT_NE(refused(v).find("tokenizer.ggml.pre 'no-such'"), std::string::npos);
  v.pre = "";
  v.tokens = {"a", "a"};
  EXPECT_NE(refused(v).find("\"a\" is listed twice"), std::string::npos);
  v.model = "rwkv";
  EXPECT_NE(refused(v).find("tokenizer.ggml.model 'rwkv'"), std::string::npos);
  v.model = "llama";
  v.tokens = {"a", "b"};
  EXPECT_NE(refused(v).find("tokenizer.ggml.scores: is missing"), std::string::npos);
}

}  // namespace
}  // namespace ingot::text
