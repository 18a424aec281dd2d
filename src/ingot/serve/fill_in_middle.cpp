#include "ingot/serve/fill_in_middle.h"

#include <array>

#include "ingot/serve/api_error.h"

namespace ingot::serve {
namespace {

struct FillNames {
  const char *prefix, *suffix, *middle;
};
// Qwen 2.5 Coder and CodeGemma; StarCoder and Granite; SantaCoder; Code Llama; DeepSeek Coder; Codestral,
// which has no third and takes the suffix first.
constexpr std::array<FillNames, 6> kFillNames{{
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
    {"[PREFIX]", "[SUFFIX]", nullptr},
}};
// What such models write behind the middle.
constexpr std::array<const char*, 8> kFillEnds{"<|fim_pad|>",        "<fim_pad>",    "<|file_sep|>",
                                               "<|file_separator|>", "<file_sep>",   "▁<EOT>",
                                               "<|repo_name|>",      "<|endoftext|>"};

}  // namespace

std::vector<std::int32_t> FillTokens::around(const std::vector<std::int32_t>& before,
                                             const std::string& after) const {
  const bool opened = !before.empty() && tokenizer->is_special(before.front());
  std::vector<std::int32_t> prompt(before.begin(), before.begin() + (opened ? 1 : 0));
  const auto add_prefix = [&] {
    prompt.push_back(prefix);
    prompt.insert(prompt.end(), before.begin() + (opened ? 1 : 0), before.end());
  };
  if (!suffix_first) add_prefix();
  const std::vector<std::int32_t> ids = tokenizer->encode(after, {.add_special_tokens = false});
  prompt.push_back(suffix);
  prompt.insert(prompt.end(), ids.begin(), ids.end());
  if (suffix_first) add_prefix();
  if (middle >= 0) prompt.push_back(middle);
  return prompt;
}

FillTokens fill_tokens(const text::Tokenizer& tokenizer) {
  for (const FillNames& names : kFillNames) {
    const auto prefix = tokenizer.token_to_id(names.prefix), suffix = tokenizer.token_to_id(names.suffix);
    const std::int32_t middle =
        names.middle != nullptr ? tokenizer.token_to_id(names.middle).value_or(-1) : -1;
    if (!prefix || !suffix || (names.middle != nullptr && middle < 0)) continue;
    FillTokens tokens{.prefix = *prefix,
                      .suffix = *suffix,
                      .middle = middle,
                      .suffix_first = names.middle == nullptr,
                      .stop = {*prefix, *suffix},
                      .tokenizer = &tokenizer};
    if (middle >= 0) tokens.stop.push_back(middle);
    for (const char* name : kFillEnds) {
      if (const auto id = tokenizer.token_to_id(name)) tokens.stop.push_back(*id);
    }
    return tokens;
  }
  throw bad_field(
      "suffix",
      "needs a model with tokens for fill-in-the-middle, such as <|fim_prefix|>; this one has none");
}

}  // namespace ingot::serve
