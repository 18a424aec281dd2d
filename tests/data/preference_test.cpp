#include "ingot/data/preference.h"

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/data/record.h"
#include "ingot/text/bpe_trainer.h"
#include "ingot/text/chat_templates.h"

namespace ingot::data {
namespace {

using test::message_of;
using Json = nlohmann::ordered_json;

// A tokenizer of bytes and of ChatML's words.
class PreferenceTest : public ::testing::Test {
 protected:
  EncodedSample encode(const std::string& record, PreferenceKind kind = PreferenceKind::pair,
                       const PreferenceFields& fields = {}) const {
    const Json json = parse_json<Json>(record, "the record");
    const SampleEncoder encoder = preference_encoder(tokenizer_, chatml_, fields, kind);
    return encoder.encode(json, {"pairs.jsonl", "line 7, sample 7", 0});
  }
  Preference read(const std::string& record, PreferenceKind kind = PreferenceKind::pair,
                  const PreferenceFields& fields = {}) const {
    const EncodedSample sample = encode(record, kind, fields);
    const auto size = static_cast<std::int64_t>(sample.tokens.size());
    const TokenStore store(sample.tokens, {size}, tokenizer_.vocab_size(), "key", sample.trained);
    return read_preference(store, {0, size}, kind);
  }
  // "prompt|answer"
  std::string text(const PromptedAnswer& answer) const {
    const auto all = std::span(answer.tokens);
    const auto prompt = static_cast<std::size_t>(answer.prompt);
    return tokenizer_.decode(all.first(prompt), false) + "|" + tokenizer_.decode(all.subspan(prompt), false);
  }
  std::string pair(const std::string& record, const PreferenceFields& fields = {}) const {
    const Preference row = read(record, PreferenceKind::pair, fields);
    return text(row.chosen) + " / " + text(*row.rejected);
  }
  std::string problem(const std::string& record, PreferenceKind kind = PreferenceKind::pair) const {
    return message_of<FormatError>([&] { encode(record, kind); });
  }

  text::Tokenizer tokenizer_ = [] {
    text::BpeTrainerConfig trainer;
    trainer.vocab_size = 259;
    trainer.special_tokens = {"</s>", "<|im_start|>", "<|im_end|>"};
    const std::vector<std::string_view> texts{"a"};
    return text::train_bpe(trainer, texts).with_config({.eos_token = "</s>"});
  }();
  std::string chatml_ = *text::chat_template_by_name("chatml");
  const std::string chat_ =
      "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n|A<|im_end|>\n / "
      "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n|B<|im_end|>\n";
};

TEST_F(PreferenceTest, TextIsTakenAsItIsAndEnded) {
  EXPECT_EQ(pair(R"({"prompt": "P:", "chosen": "good", "rejected": "bad"})"), "P:|good</s> / P:|bad</s>");
  EXPECT_EQ(pair(R"({"question": "P:", "chosen_response": "g", "rejected_response": "b"})"),
            "P:|g</s> / P:|b</s>");
}

TEST_F(PreferenceTest, WithoutAPromptItIsWhatBothAnswersBeginWith) {
  // As trl: a space in front of the difference belongs to the answers.
  EXPECT_EQ(pair(R"({"chosen": "The sky is blue.", "rejected": "The sky is green."})"),
            "The sky is| blue.</s> / The sky is| green.</s>");
  EXPECT_EQ(pair(R"({"chosen": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}],
                     "rejected": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "B"}]})"),
            chat_);
}

TEST_F(PreferenceTest, EveryFormOfAChatGivesTheSameTokens) {
  const std::string user = R"({"role": "user", "content": "Q"})",
                    a = R"({"role": "assistant", "content": "A"})", b = R"({"from": "gpt", "value": "B"})";
  const std::string lists = R"("chosen": [)" + a + R"(], "rejected": [)" + b + "]",
                    objects = R"("chosen": )" + a + R"(, "rejected": )" + b,
                    whole = R"("chosen": [)" + user + "," + a + R"(], "rejected": [)" + user + "," + b + "]";
  EXPECT_EQ(pair(R"({"prompt": [)" + user + "], " + lists + "}"), chat_);
  EXPECT_EQ(pair(R"({"messages": [)" + user + "], " + objects + "}"), chat_);
  EXPECT_EQ(pair(R"({"prompt": "Q", )" + whole + "}"), chat_);
  EXPECT_EQ(pair(R"({"conversation": [)" + user + R"(], "chosen": "A", "rejected": "B"})"), chat_);
  PreferenceFields templated;
  templated.templated = true;
  EXPECT_EQ(pair(R"({"prompt": "Q", "chosen": "A", "rejected": "B"})", templated), chat_);
  EXPECT_NE(pair(R"({"system": "Be brief.", "question": "Q", "chosen": "A", "rejected": "B"})", templated)
                .find("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user"),
            std::string::npos);
}

TEST_F(PreferenceTest, OwnFormatsAreFilled) {
  PreferenceFields fields;
  fields.prompt = "ask";
  fields.prompt_format = "<{system}> {prompt} ->";
  fields.rejected_format = " {rejected}!";
  EXPECT_EQ(pair(R"({"system": "S", "ask": "{prompt}", "chosen": "A", "rejected": "B"})", fields),
            "<S> {prompt} ->|A</s> / <S> {prompt} ->| B!</s>");
}

TEST_F(PreferenceTest, VerdictsKeepTheirLabel) {
  for (const auto& [label, desirable] : {std::pair{"true", true}, {"0", false}, {R"("False")", false}}) {
    const Preference row = read(std::string(R"({"prompt": "P", "completion": "C", "label": )") + label + "}",
                                PreferenceKind::verdict);
    EXPECT_EQ(text(row.chosen), "P|C</s>");
    EXPECT_EQ(row.desirable, desirable);
    EXPECT_FALSE(row.rejected.has_value());
  }
  const Preference chat = read(R"({"completion": [{"role": "user", "content": "Q"},
      {"role": "assistant", "content": "A"}], "label": false})",
                               PreferenceKind::verdict);
  EXPECT_EQ(text(chat.chosen) + " / ", chat_.substr(0, chat_.find(" / ") + 3));
}

TEST_F(PreferenceTest, WhatIsNoPairIsRefusedWithItsLocation) {
  const std::string missing = problem(R"({"prompt": "P", "chosen": "A"})");
  EXPECT_NE(missing.find("pairs.jsonl"), std::string::npos) << missing;
  EXPECT_NE(missing.find("line 7"), std::string::npos) << missing;
  EXPECT_NE(missing.find("'rejected'"), std::string::npos) << missing;
  EXPECT_NE(missing.find("prompt, chosen"), std::string::npos) << missing;
  EXPECT_NE(problem(R"({"prompt": "P", "chosen": "A", "rejected": null})").find("'rejected'"),
            std::string::npos);
  EXPECT_NE(problem(R"({"prompt": "P", "chosen": "", "rejected": "B"})").find("'chosen' answer is empty"),
            std::string::npos);
  EXPECT_NE(problem(R"({"chosen": "same", "rejected": "same"})").find("no prompt"), std::string::npos);
  EXPECT_NE(problem(R"({"prompt": "", "chosen": "A", "rejected": "B"})").find("prompt is empty"),
            std::string::npos);
  EXPECT_NE(problem(R"({"prompt": "P", "chosen": 3, "rejected": "B"})").find("number"), std::string::npos);
  EXPECT_NE(problem(R"({"prompt": "P", "completion": "C"})", PreferenceKind::verdict).find("'label'"),
            std::string::npos);
  EXPECT_NE(
      problem(R"({"prompt": "P", "completion": "C", "label": 2})", PreferenceKind::verdict).find("is 2"),
      std::string::npos);
}

}  // namespace
}  // namespace ingot::data
