#include "ingot/data/chat_encoder.h"

#include <algorithm>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/data/record.h"

namespace ingot::data {
namespace {

using test::message_of;
using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

const Json& goldens() {
  static const Json all = [] {
    const std::string path = test::source_dir() + "/tests/data/chat_mask_goldens.json";
    return parse_json<Json>(read_file(path), path)["rows"];
  }();
  return all;
}

text::Tokenizer tokenizer_of(const Json& row) {
  const std::string path =
      test::source_dir() + "/tests/text/goldens/" + row["tokenizer"].get<std::string>() + ".json";
  const auto tokenizer =
      text::Tokenizer::from_json(dump_json(parse_json<Json>(read_file(path), path)["tokenizer"]));
  return tokenizer.with_config({.bos_token = row["bos"], .eos_token = row["eos"]});
}

// The template without its generation blocks.
std::string plain(std::string source) {
  for (const std::string tag : {"{% generation %}", "{% endgeneration %}"})
    for (std::size_t at = 0; (at = source.find(tag)) != source.npos;) source.erase(at, tag.size());
  return source;
}

Json record_of(const Json& c) { return {{"messages", c["messages"]}, {"tools", c["tools"]}}; }
const RecordLocation kLocation{"chats.jsonl", "line 3, sample 2", 40};

Ids mask_of(const EncodedSample& sample) { return {sample.trained.begin(), sample.trained.end()}; }

TEST(ChatEncoder, MasksOfGenerationBlocksAndOfPlainTemplatesAreThoseOfTransformers) {
  for (const Json& row : goldens()) {
    const text::Tokenizer tokenizer = tokenizer_of(row);
    const std::string source = row["template"];
    const SampleEncoder blocks = chat_encoder(tokenizer, source, {}, {});
    const SampleEncoder differences = chat_encoder(tokenizer, plain(source), {}, {});
    for (const Json& c : row["cases"]) {
      SCOPED_TRACE(row["name"].get<std::string>() + " " + c["chat"].get<std::string>());
      for (const SampleEncoder* encoder : {&blocks, &differences}) {
        const EncodedSample sample = encoder->encode(record_of(c), kLocation);
        EXPECT_EQ(sample.tokens, c["ids"].get<Ids>());
        EXPECT_EQ(mask_of(sample), c["mask"].get<Ids>()) << (encoder == &blocks ? "blocks" : "differences");
        EXPECT_FALSE(sample.unterminated);
      }
    }
  }
}

// The chatml row, without blocks.
class ChatMl : public ::testing::Test {
 protected:
  std::string trained(const Json& record, const ChatTraining& training = {},
                      const ChatFields& fields = {}) const {
    const EncodedSample sample =
        chat_encoder(tokenizer_, source_, fields, training).encode(record, kLocation);
    Ids ids;
    std::string out;
    for (std::size_t i = 0; i <= sample.tokens.size(); ++i) {
      if (i < sample.tokens.size() && sample.trained[i]) {
        ids.push_back(sample.tokens[i]);
      } else if (!ids.empty()) {
        out += "[" + tokenizer_.decode(ids, false) + "]";
        ids.clear();
      }
    }
    return out;
  }
  std::string refusal(const Json& record, const ChatFields& fields = {}) const {
    return message_of<FormatError>([&] { trained(record, {}, fields); });
  }
  void expect_refusal(const Json& record, const std::string& part) const {
    const std::string message = refusal(record);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("chats.jsonl: at byte 40: line 3, sample 2"), std::string::npos) << message;
  }

  text::Tokenizer tokenizer_ = tokenizer_of(goldens()[0]);
  std::string source_ = plain(goldens()[0]["template"]);
  Json chat_ = parse_json<Json>(
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"},
          {"role": "assistant", "content": "A"}, {"role": "user", "content": "R"},
          {"role": "assistant", "content": "B"}]})",
      "");
};

TEST_F(ChatMl, RolesInputsAndEndsOfTurnsAreTrainedAsAsked) {
  EXPECT_EQ(trained(chat_), "[A<|im_end|>][B<|im_end|>]");
  EXPECT_EQ(trained(chat_, {.roles_to_train = {"user"}}), "[Q<|im_end|>][R<|im_end|>]");
  EXPECT_EQ(trained(chat_, {.train_on_inputs = true}),
            "[S<|im_end|>][Q<|im_end|>][A<|im_end|>][R<|im_end|>][B<|im_end|>]");
  EXPECT_EQ(trained(chat_, {.train_on_eos = TrainOnEos::none}), "[A][B]");
  EXPECT_EQ(trained(chat_, {.train_on_eos = TrainOnEos::last}), "[A][B<|im_end|>]");
  EXPECT_EQ(trained(chat_, {.train_on_eos = TrainOnEos::turn}), "[A<|im_end|>][B<|im_end|>]");
  EXPECT_EQ(trained(chat_, {.train_on_eos = TrainOnEos::all}),
            "[<|im_end|>][<|im_end|>][A<|im_end|>][<|im_end|>][B<|im_end|>]");
}

TEST_F(ChatMl, BlocksFollowTrainOnEosWhereItIsGiven) {
  source_ = goldens()[0]["template"];
  EXPECT_EQ(trained(chat_, {.train_on_eos = TrainOnEos::none}), "[A][B]");
  EXPECT_EQ(trained(chat_, {.train_on_eos = TrainOnEos::last}), "[A][B<|im_end|>]");
}

TEST_F(ChatMl, AMessageCanSayWhetherItIsTrained) {
  chat_["messages"][2]["weight"] = 0;
  EXPECT_EQ(trained(chat_), "[B<|im_end|>]");
  chat_["messages"][1]["learn"] = true;
  EXPECT_EQ(trained(chat_, {}, {.training = "learn"}), "[Q<|im_end|>][A<|im_end|>][B<|im_end|>]");
}

TEST_F(ChatMl, ShareGptOtherNamesPartsAndStringsOfJsonGiveTheSame) {
  const std::string right = trained(chat_);
  const Json share = parse_json<Json>(
      R"({"conversations": [{"from": "system", "value": "S"}, {"from": "human", "value": "Q"},
          {"from": "gpt", "value": "A"}, {"from": "human", "value": "R"}, {"from": "gpt", "value": "B"}]})",
      "");
  EXPECT_EQ(trained(share), right);
  EXPECT_EQ(trained({{"messages", dump_json(chat_["messages"])}}), right);  // a cell of a table
  Json parts = chat_;
  parts["messages"][2]["content"] = {{{"type", "text"}, {"text", "A"}}};
  EXPECT_EQ(trained(parts), right);
  Json named = {{"talk", Json::array()}};
  for (const Json& m : chat_["messages"])
    named["talk"].push_back({{"who", "x-" + m["role"].get<std::string>()}, {"says", m["content"]}});
  const ChatFields fields{
      .messages = "talk",
      .properties = {{"role", "who"}, {"content", "says"}},
      .roles = {{"x-user", "user"}, {"x-assistant", "assistant"}, {"x-system", "system"}}};
  EXPECT_EQ(trained(named, {}, fields), right);
  Json beside = chat_;
  beside["messages"].erase(0);
  beside["system"] = "S";
  EXPECT_EQ(trained(beside, {.train_on_inputs = true}), trained(chat_, {.train_on_inputs = true}));
  EXPECT_EQ(trained(chat_, {.train_on_inputs = true}, {.drop_system_message = true}).find('S'),
            std::string::npos);
}

TEST_F(ChatMl, ArgumentsOfCallsInStringsAreObjects) {
  Json c = goldens()[0]["cases"][3];
  ASSERT_EQ(c["chat"], "tools");
  Json& call = c["messages"][1]["tool_calls"][0]["function"];
  call["arguments"] = dump_json(call["arguments"]);
  c["messages"][1]["content"] = nullptr;
  c["tools"] = dump_json(c["tools"]);
  const EncodedSample sample = chat_encoder(tokenizer_, source_, {}, {}).encode(record_of(c), kLocation);
  EXPECT_EQ(sample.tokens, c["ids"].get<Ids>());
  EXPECT_EQ(mask_of(sample), c["mask"].get<Ids>());
}

TEST_F(ChatMl, EarlierTurnsThatTheTemplateShortensAreFound) {
  source_ =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n"
      "{{ m.content if loop.last or m.role != 'assistant' else m.content.split('</think>')[-1] }}<|im_end|>\n"
      "{% endfor %}";
  chat_["messages"][2]["content"] = "<think>long</think>A";
  chat_["messages"][4]["content"] = "<think>more</think>B";
  EXPECT_EQ(trained(chat_), "[A<|im_end|>][<think>more</think>B<|im_end|>]");
}

TEST_F(ChatMl, ATurnWithoutAnEndIsToldOf) {
  const SampleEncoder encoder = chat_encoder(
      tokenizer_, "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}", {}, {});
  EXPECT_TRUE(encoder.encode(chat_, kLocation).unterminated);
}

TEST_F(ChatMl, WhatCannotBeUsedIsRefusedWithItsLocation) {
  const auto with = [&](const std::string& messages) {
    return Json{{"messages", parse_json<Json>(messages, "")}};
  };
  expect_refusal({{"id", 1}, {"txt", "x"}}, "has no 'messages'; it has id, txt");
  expect_refusal(with("[]"), "'messages' is empty");
  expect_refusal(with("3"), "'messages' is number; expected a list");
  expect_refusal(with(R"([{"role": "user", "content": "x"}])"),
                 "this chat has no turn to learn: its roles are user");
  expect_refusal(with(R"([{"content": "x"}])"), "message 1 has no 'role'; it has content");
  expect_refusal(with(R"([{"role": "assistant"}])"), "message 1 has no 'content'");
  expect_refusal(with(R"([{"role": "assistant", "content": 3}])"), "message 1: the content is number");
  expect_refusal(with(R"([{"role": "assistant", "content": [{"type": "image_url"}]}])"),
                 "a part of type 'image_url'");
  expect_refusal(with(R"([{"role": "assistant", "content": "x", "weight": 2}])"), "'weight' is 2; expected");
  source_ = "{{ raise_exception('roles must alternate') }}";
  expect_refusal(
      chat_, "the chat template fails: chat template, line 1: the template refuses: roles must alternate");
}

TEST_F(ChatMl, BadSettingsNameTheKey) {
  EXPECT_NE(message_of<InvalidConfig>([&] { chat_encoder(tokenizer_, "", {}, {}); }).find("chat_template"),
            std::string::npos);
  EXPECT_NE(message_of<InvalidConfig>([&] {
              chat_encoder(tokenizer_, source_, {}, {.eot_tokens = {"<|nothing|>"}});
            }).find("eot_tokens"),
            std::string::npos);
}

TEST(InstructionEncoder, TrainsTheAnswerAndItsEnd) {
  const text::Tokenizer tokenizer = tokenizer_of(goldens()[0]);
  const Json record{{"instruction", "Add {input}"}, {"input", "1 2"}, {"output", "3"}};
  for (const std::string name : {"alpaca", "alpaca:chat", "alpaca:chatml", "alpaca:phi"}) {
    const InstructionFormat format = *instruction_format(name);
    const EncodedSample sample = instruction_encoder(tokenizer, format, false).encode(record, kLocation);
    ASSERT_EQ(sample.tokens.size(), sample.trained.size());
    EXPECT_EQ(std::ranges::count(sample.trained, true), 2) << name;
    EXPECT_TRUE(tokenizer.decode(sample.tokens, false).ends_with("3<|im_end|>")) << name;
  }
  const auto text = [&](const InstructionFormat& format, const Json& r) {
    return tokenizer.decode(instruction_encoder(tokenizer, format, true).encode(r, kLocation).tokens, false);
  };
  EXPECT_EQ(text(*instruction_format("alpaca"), record),
            "Below is an instruction that describes a task, paired with an input that provides further "
            "context. Write "
            "a response that appropriately completes the request.\n\n### Instruction:\nAdd {input}\n\n### "
            "Input:\n1 "
            "2\n\n### Response:\n3<|im_end|>");
  EXPECT_EQ(text(*instruction_format("prompt_completion"), {{"prompt", "Q:"}, {"completion", " A"}}),
            "Q: A<|im_end|>");
  const InstructionFormat own{
      .field_instruction = "q", .field_output = "a", .no_input_format = "[{instruction}]"};
  EXPECT_EQ(text(own, {{"q", "x"}, {"a", "y"}}), "[x]y<|im_end|>");
  EXPECT_NE(message_of<FormatError>([&] {
              text(own, {{"q", "x"}, {"b", "y"}});
            }).find("line 3, sample 2: has no 'a'; it has q, b"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot::data
