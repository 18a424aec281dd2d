#include "ingot/text/gguf_pre_tokenizers.h"

#include <algorithm>

#include "ingot/text/pre_tokenizer.h"

namespace ingot::text {
namespace {

std::vector<GgufPreTokenizers> make_table() {
  // The parts that many patterns are put together from.
  const std::string contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  const std::string word = R"([^\r\n\p{L}\p{N}]?\p{L}+)";
  const std::string signs = R"( ?[^\s\p{L}\p{N}]+[\r\n]*)",
                    signs_and_slashes = R"( ?[^\s\p{L}\p{N}]+[\r\n/]*)";
  const std::string spaces = R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
  const auto cased_words = [](const std::string& upper, const std::string& lower, const std::string& suffix) {
    const std::string before = R"([^\r\n\p{L}\p{N}]?)";
    return before + "[" + upper + "]*[" + lower + "]+" + suffix + "|" + before + "[" + upper + "]+[" + lower +
           "]*" + suffix;
  };
  const std::string upper = R"(\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M})", lower = R"(\p{Ll}\p{Lm}\p{Lo}\p{M})";

  const std::string gpt2 = kGpt2Pattern;
  const std::string llama3 = contractions + "|" + word + R"(|\p{N}{1,3}|)" + signs + "|" + spaces;
  const std::string qwen2 = contractions + "|" + word + R"(|\p{N}|)" + signs + "|" + spaces;
  const std::string gpt4o =
      cased_words(upper, lower, contractions + "?") + R"(|\p{N}{1,3}|)" + signs_and_slashes + "|" + spaces;
  const std::string bloom = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+";
  const std::string cjk = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
                    cjk_and_kana = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
  const std::string ascii_signs = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])";
  const std::string deepseek_words =
      ascii_signs + "[A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+";
  const std::string deepseek3 = deepseek_words + "[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
  const std::string three_digits = "[0-9][0-9][0-9]";
  // Letters with a case, as DeepSeek's first tokenizer lists them.
  const std::string deepseek_letters =
      "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
      "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-"
      "\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-"
      "\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-"
      "\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc"
      "\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-"
      "\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-"
      "\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-"
      "\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-"
      "\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-"
      "\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-"
      "\U000118df\U0001e900-\U0001e943";
  // Kimi K2 leaves Han characters to a branch of their own.
  const std::string not_han = R"(&&[^\p{Han}])";
  // The digits of a number in threes, from its end.
  const std::string threes_from_the_end = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";

  return {
      {.names = {"gpt-2", "phi-2", "mpt", "olmo", "jais", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es",
                 "jina-v2-de", "jina-v2-code", "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "modern-bert",
                 "trillion", "granite-docling", "exaone4"},
       .gpt2_pattern = true},
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                 "jina-v5-nano"},
       .patterns = {llama3},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, .patterns = {llama3}},
      {.names = {"qwen2", "deepseek-r1-qwen", "f2llmv2"}, .patterns = {qwen2}, .nfc = true},
      {.names = {"stablelm2", "megrez", "kormo", "hunyuan", "solar-open", "grok-2"}, .patterns = {qwen2}},
      {.names = {"qwen35"},
       .patterns = {contractions +
                    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" + spaces},
       .nfc = true},
      {.names = {"tekken"},
       .patterns = {cased_words(upper, lower, "") + R"(|\p{N}|)" + signs_and_slashes + "|" + spaces},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
                 "mellum2"},
       .gpt2_pattern = true,
       .digits = true},
      {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, .patterns = {gpt4o}},
      {.names = {"granite-embed-multi-97m"},
       .patterns = {cased_words(R"([\p{L}\p{M}]&&[^a-z])", R"([\p{L}\p{M}]&&[^A-Z])", contractions + "?") +
                    R"(|\p{N}{1,3}|)" + signs_and_slashes + "|" + spaces},
       .ignore_merges = true},
      {.names = {"tiny_aya", "cohere2moe"}, .patterns = {R"(\d{1,3}(?=(?:\d{3})*\b))", gpt4o}},
      {.names = {"kimi-k2"},
       .patterns = {R"([\p{Han}]+|)" + cased_words(upper + not_han, lower + not_han, contractions + "?") +
                    R"(|\p{N}{1,3}|)" + signs + "|" + spaces}},
      {.names = {"youtu"},
       .patterns = {"[\uac00-\ud7a3\u3131-\u318e]+|["
                    "\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
                    "|[\u3105-\u312f]+|" +
                        cjk_and_kana,
                    cased_words(upper, lower, contractions + "?") + R"(|\p{N}|)" + signs_and_slashes + "|" +
                        spaces},
       .ignore_merges = true},
      {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       .patterns = {R"(\p{N}{1,3})", cjk_and_kana, deepseek3}},
      {.names = {"spark2_5"},
       .patterns = {R"(\p{N}{1,3})", cjk_and_kana, deepseek_words + "|[\r\n]|\\s+(?!\\S)|\\s+", R"(\p{N})"}},
      {.names = {"afmoe"},
       .patterns = {threes_from_the_end,
                    "[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-"
                    "\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-"
                    "\ua9ff\uac00-\ud7af\u1100-\u11ff]+",
                    ascii_signs +
                        R"([A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" +
                        spaces}},
      {.names = {"deepseek-llm"},
       .patterns = {"[\r\n]", "\\s?[" + deepseek_letters + "]+",
                    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", R"(\s+$)", cjk,
                    R"(\p{N}+)"}},
      {.names = {"deepseek-coder"}, .patterns = {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", cjk, R"(\p{N})"}},
      {.names = {"falcon"}, .patterns = {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2, three_digits}},
      {.names = {"default", ""}, .patterns = {R"([\p{P}\$\+<=>\^~\|]+)", gpt2, R"(\p{N}+)", three_digits}},
      {.names = {"bloom", "poro-chat", "gpt3-finnish"}, .patterns = {bloom}},
      {.names = {"viking"}, .patterns = {bloom, R"(\p{N})"}},
      {.names = {"chameleon"},
       .patterns = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )",
                    R"(\p{N})", R"([\p{P}!-/:-@\[-`{-~])", gpt2},
       .add_bos = true},
      {.names = {"superbpe"}, .patterns = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}},
      {.names = {"bailingmoe", "bailingmoe2", "llada-moe"},
       .patterns = {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
                    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"}},
      {.names = {"seed-coder"},
       .patterns = {contractions + "|" + word + R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)" + spaces}},
      {.names = {"ufakzeka"}, .patterns = {word + R"(|\p{N}|)" + signs + "|" + spaces}},
      {.names = {"exaone-moe"},
       .patterns = {contractions +
                    R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
                    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"}},
      {.names = {"laguna"}, .patterns = {R"([^\n]+|[\n]+)", qwen2}},
      {.names = {"minicpm5"},
       .patterns = {R"(\p{N}{1,3})", contractions + "|" + word + R"(|\p{N}+|)" + signs + "|" + spaces},
       .ignore_merges = true},
      {.names = {"jais-2"},
       .patterns = {contractions + "|" + word + R"(|\p{N}{1,3}|)" + signs +
                    R"(|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S))"
                    R"(|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}},
      {.names = {"gemma4", "granite-embed-multi-311m", "sarvam-moe"}, .pieces = true},
  };
}

}  // namespace

std::span<const GgufPreTokenizers> gguf_pre_tokenizers() {
  static const std::vector<GgufPreTokenizers> table = make_table();
  return table;
}

const GgufPreTokenizers* find_gguf_pre_tokenizer(std::string_view name) {
  const auto rows = gguf_pre_tokenizers();
  const auto found = std::ranges::find_if(rows, [name](const GgufPreTokenizers& row) {
    return std::ranges::find(row.names, name) != row.names.end();
  });
  return found != rows.end() ? &*found : nullptr;
}

}  // namespace ingot::text
