#include "ingot/serve/token_text.h"

#include <array>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ingot::serve {
namespace {

nlohmann::ordered_json entry(const text::Tokenizer& tokenizer, std::int32_t id, float logprob) {
  const std::string bytes = token_bytes(tokenizer, id);
  nlohmann::ordered_json numbers = nlohmann::ordered_json::array();
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return {{"token", bytes}, {"logprob", logprob}, {"bytes", std::move(numbers)}};
}

}  // namespace

std::string token_bytes(const text::Tokenizer& tokenizer, std::int32_t id) {
  if (tokenizer.decodes_token_wise()) return tokenizer.decode_bytes(std::array{id}, false);
  // Behind a token that decodes to itself, so that a space at its beginning stays.
  const std::vector<std::int32_t> before = tokenizer.encode("a", {.add_special_tokens = false});
  std::vector<std::int32_t> both = before;
  both.push_back(id);
  const std::string first = tokenizer.decode_bytes(before, false), text = tokenizer.decode_bytes(both, false);
  return text.starts_with(first) ? text.substr(first.size()) : tokenizer.decode_bytes(std::array{id}, false);
}

nlohmann::ordered_json chat_logprob(const text::Tokenizer& tokenizer, std::int32_t id,
                                    const infer::DrawnLogprob& drawn) {
  nlohmann::ordered_json result = entry(tokenizer, id, drawn.logprob);
  nlohmann::ordered_json top = nlohmann::ordered_json::array();
  for (const infer::TokenLogprob& each : drawn.top) top.push_back(entry(tokenizer, each.id, each.logprob));
  result["top_logprobs"] = std::move(top);
  return result;
}

nlohmann::ordered_json prompt_logprobs(const text::Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                                       std::span<const infer::PromptLogprob> logprobs, std::int64_t top) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array({nullptr});
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    nlohmann::ordered_json entries = nlohmann::ordered_json::object();
    const auto add = [&](std::int32_t id, float logprob, std::int64_t rank) {
      entries[std::to_string(id)] = {
          {"logprob", logprob}, {"rank", rank}, {"decoded_token", token_bytes(tokenizer, id)}};
    };
    std::int64_t rank = 0;
    for (const infer::TokenLogprob& each : logprobs[i].drawn.top) {
      if (rank == top) break;
      add(each.id, each.logprob, ++rank);
    }
    const std::int32_t own = prompt[i + 1];
    if (!entries.contains(std::to_string(own))) add(own, logprobs[i].drawn.logprob, logprobs[i].rank);
    list.push_back(std::move(entries));
  }
  return list;
}

}  // namespace ingot::serve
