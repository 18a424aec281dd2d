#include "ingot/infer/session.h"

#include "tests/infer/scripted_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/infer/chat.h"
#include "ingot/infer/word_tokens.h"
#include "ingot/weights/gguf_writer.h"

namespace ingot::infer {
namespace {

constexpr std::int32_t kEos = 1, kTurn = 3, kEnd = 4;
using Ids = std::vector<std::int32_t>;

class SessionTest : public ::testing::Test {
 protected:
  // Behind <turn> the model says "ok", and then the template's end of a turn.
  SessionTest() { test::write_scripted_model(folder_.path(), test::script(kTurn, "ok", kEnd)); }

  void write(const std::string& name, std::string_view text) {
    write_file_atomically(folder_.path() + "/" + name, text);
  }
  Session open() const { return Session({.model = folder_.path()}); }
  Ids end_tokens() const {
    const Session session = open();
    return {session.end_tokens().begin(), session.end_tokens().end()};
  }

  const test::TemporaryDirectory folder_;
};

TEST_F(SessionTest, AChatEndsAtTheTokenThatTheTemplatePutsBehindAnAnswer) {
  Session session = open();
  Chat chat(session, {.sampling = {.temperature = 0}});
  std::string shown;
  const WrittenText answer = chat.answer("hi", [&](std::string_view piece) {
    shown += piece;
    return true;
  });
  EXPECT_EQ(answer.text, "ok");
  EXPECT_EQ(shown, "ok");
  EXPECT_EQ(answer.generation.reason, StopReason::stop_token);
  EXPECT_EQ(chat.answer("hi").text, "ok");
  ASSERT_EQ(chat.messages().size(), 4U);
  EXPECT_EQ(chat.messages().back().content, "ok");
  EXPECT_GT(chat.tokens(), answer.prompt_tokens);
}

TEST_F(SessionTest, WhatEndsATextIsTheUnionOfAllThatNameIt) {
  EXPECT_EQ(end_tokens(), (Ids{kEos, kEnd}));
  write("generation_config.json", R"({"eos_token_id": [1, 9, 10]})");
  EXPECT_EQ(end_tokens(), (Ids{kEos, 9, 10, kEnd}));
  write("tokenizer_config.json", R"({"eos_token": "<pad>", "eot_token": "<turn>", "bos_token": "<bos>"})");
  EXPECT_EQ(end_tokens(), (Ids{kEos, 9, 10, 0, kTurn, kEnd}));
  // A template that fails, or puts text behind an answer, adds nothing.
  write("chat_template.jinja", "{{ raise_exception('no') }}");
  EXPECT_EQ(end_tokens(), (Ids{kEos, 9, 10, 0, kTurn}));
  write("chat_template.jinja", "{% for m in messages %}{{ m.content }} a<end>{% endfor %}");
  EXPECT_EQ(end_tokens(), (Ids{kEos, 9, 10, 0, kTurn}));
}

TEST_F(SessionTest, EndTokensCanBePassedOver) {
  Session session = open();
  TextOptions options{.max_tokens = 6, .sampling = {.temperature = 0}};
  EXPECT_EQ(session.generate("<turn>", options).text, "ok");
  options.ignore_end_tokens = true;
  EXPECT_EQ(session.generate("<turn>", options).text, "okaaa");  // <end> is not shown
}

TEST_F(SessionTest, GenerationConfigSetsWhatItNames) {
  const auto options = [&](std::string_view json) {
    write("generation_config.json", json);
    return open().options({.max_tokens = 7, .sampling = {.temperature = 0.8}});
  };
  const TextOptions all = options(
      R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.1,
          "repetition_penalty": 1.05, "max_new_tokens": 2048, "transformers_version": "5.24.0"})");
  EXPECT_EQ(all.sampling.temperature, 0.6);
  EXPECT_EQ(all.sampling.top_k, 20);
  EXPECT_EQ(all.sampling.top_p, 0.95);
  EXPECT_EQ(all.sampling.min_p, 0.1);
  EXPECT_EQ(all.sampling.repetition_penalty, 1.05);
  EXPECT_EQ(all.max_tokens, 2048);
  const TextOptions none = options(R"({"_from_model_config": true, "eos_token_id": 1, "top_k": null})");
  EXPECT_EQ(none.sampling.temperature, 0.8);
  EXPECT_EQ(none.max_tokens, 7);
  EXPECT_EQ(options(R"({"do_sample": false, "temperature": 0.7})").sampling.temperature, 0);
  EXPECT_EQ(options(R"({"top_p": 0.9})").sampling.temperature, 1);
  EXPECT_EQ(options(R"({"do_sample": true})").sampling.temperature, 1);
  try {
    options(R"({"top_k": "many"})");
    FAIL();
  } catch (const FormatError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("generation_config.json"), std::string::npos) << message;
    EXPECT_NE(message.find("top_k"), std::string::npos) << message;
  }
}

TEST_F(SessionTest, GenerationConfigRulesTokensOut) {
  write("generation_config.json",
        R"({"suppress_tokens": [7], "bad_words_ids": [[1], [5, 6]], "stop_strings": "end", "typical_p": 0.9,
            "no_repeat_ngram_size": 3, "min_new_tokens": 4})");
  const TextOptions options = open().options();
  ASSERT_EQ(options.sampling.logit_bias.size(), 1U);
  EXPECT_EQ(options.sampling.logit_bias[0].first, 7);
  EXPECT_EQ(options.sampling.bad_words, (std::vector<Ids>{{5, 6}}));  // an end token is none
  EXPECT_EQ(options.stop, std::vector<std::string>{"end"});
  EXPECT_EQ(options.sampling.typical_p, 0.9);
  EXPECT_EQ(options.sampling.no_repeat_ngram_size, 3);
  EXPECT_EQ(options.sampling.min_tokens, 4);
}

TEST_F(SessionTest, TokenIdsThatDoNotFitAreRefusedByKeyAndNeverCut) {
  for (const auto& [key, value] :
       {std::pair("eos_token_id", "4294967297"), std::pair("eos_token_id", "[1, -4294967290]"),
        std::pair("suppress_tokens", "[4294967303]"), std::pair("bad_words_ids", "[[5, 4294967302]]"),
        std::pair("bad_words_ids", "[[5.5]]"), std::pair("bad_words_ids", "[5]")}) {
    write("generation_config.json", std::string("{\"") + key + "\": " + value + "}");
    try {
      static_cast<void>(open().options());
      ADD_FAILURE() << key << ": " << value;
    } catch (const FormatError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("generation_config.json"), std::string::npos) << message;
      EXPECT_NE(message.find(key), std::string::npos) << message;
    }
  }
}

TEST_F(SessionTest, AStopStringEndsTheTextAcrossTokens) {
  test::write_scripted_model(folder_.path(), test::script(kTurn, "one tw.", kEos));
  Session session = open();
  std::string shown;
  const auto show = [&](std::string_view piece) {
    shown += piece;
    return true;
  };
  const WrittenText written =
      session.generate("<turn>", {.sampling = {.temperature = 0}, .stop = {"e tx", " tw"}}, show);
  EXPECT_EQ(written.text, "one");
  EXPECT_EQ(shown, "one");
  EXPECT_EQ(written.generation.reason, StopReason::stop_string);
  EXPECT_EQ(name(written.generation.reason), "stop_string");
}

TEST_F(SessionTest, BadWordsAndMinTokensHoldTokensBack) {
  Session session = open();
  TextOptions options{.max_tokens = 5, .sampling = {.temperature = 0, .min_tokens = 4}};
  // After "ok" the most probable token that is not an end token is the first of equals, <pad>, which is not
  // shown.
  const WrittenText longer = session.generate("<turn>", options);
  EXPECT_TRUE(longer.text.starts_with("ok")) << longer.text;
  EXPECT_GE(longer.generation.tokens.size(), 4U);
  options.sampling.min_tokens = 0;
  options.bad_words = {"ok"};
  EXPECT_FALSE(session.generate("<turn>", options).text.starts_with("ok"));
}

TEST_F(SessionTest, WordsBecomeTheTokensThatWriteThem) {
  const Session session = open();
  const auto id = [](char c) { return test::scripted_id(c); };
  EXPECT_EQ(word_sequences(session.tokenizer(), std::vector<std::string>{" ab"}),
            (std::vector<Ids>{{id('a'), id('b')}}));
  EXPECT_EQ(breaker_sequences(session.tokenizer(), std::vector<std::string>{"\n", "a b"}),
            (std::vector<Ids>{{id('a'), id(' '), id('b')}, {id('\n')}}));
}

TEST_F(SessionTest, AGgufFileNamesItsEndTokensAndSettings) {
  GgufMetadata metadata;
  metadata.set("tokenizer.ggml.eos_token_id", GgufValue::of_u32(7));
  metadata.set("tokenizer.ggml.eot_token_id", GgufValue::of_u32(8));
  metadata.set("tokenizer.ggml.eom_token_id", GgufValue::of_u32(9));
  metadata.set("general.sampling.temp", GgufValue::of_f32(0.5F));
  metadata.set("general.sampling.top_k", GgufValue::of_i32(30));
  const std::string path = folder_.path() + "/model.gguf";
  write_gguf(path, metadata, {});
  const GenerationConfig config = GenerationConfig::of_model(path);
  EXPECT_EQ(config.end_tokens(), (Ids{7, 8, 9}));
  TextOptions options;
  config.apply(options);
  EXPECT_EQ(options.sampling.temperature, 0.5);
  EXPECT_EQ(options.sampling.top_k, 30);
}

TEST_F(SessionTest, TextsTakenTogetherComeInTheOrderOfTheirPrompts) {
  Session session({.model = folder_.path(), .batch = 2});
  const std::vector<std::string> prompts{"b", "<turn>", "c"};
  std::vector<std::string> texts;
  session.generate_all(prompts, {.max_tokens = 4, .sampling = {.temperature = 0}},
                       [&](const WrittenText& written) { texts.push_back(written.prompt + written.text); });
  EXPECT_EQ(texts, (std::vector<std::string>{"baaaa", "<turn>ok", "caaaa"}));
}

TEST_F(SessionTest, AChatGoesOnAfterAnError) {
  Session session = open();
  Chat chat(session, {.sampling = {.temperature = 0}});
  const auto fail = [](std::string_view) -> bool { throw Error("nobody listens"); };
  EXPECT_THROW(chat.answer("hi", fail), Error);
  EXPECT_TRUE(chat.messages().empty());
  EXPECT_EQ(chat.answer("hi").text, "ok");
}

TEST_F(SessionTest, AChatThatOutgrowsTheContextForgetsItsOldestTurnsButNotItsSystemMessage) {
  Session session({.model = folder_.path(), .engine = {.context = 96}});
  Chat chat(session, {.max_tokens = 8, .sampling = {.temperature = 0}}, "be kind");
  for (int turn = 0; turn < 8; ++turn) {
    EXPECT_EQ(chat.answer(std::string(1, static_cast<char>('a' + turn))).text, "ok");
    EXPECT_LE(chat.tokens(), 96);
  }
  EXPECT_GT(chat.forgotten(), 0);
  EXPECT_TRUE(chat.summary().empty());
  EXPECT_EQ(chat.messages().size(), 1 + 2 * static_cast<std::size_t>(8 - chat.forgotten()));
  EXPECT_EQ(chat.messages().front().content, "be kind");
  EXPECT_EQ(chat.transcript().size(), 1 + 2 * 8U);
  EXPECT_EQ(chat.transcript()[1].content, "a");
  EXPECT_EQ(chat.messages()[1].content, std::string(1, static_cast<char>('a' + chat.forgotten())));
  EXPECT_THROW(chat.answer(std::string(200, 'x')), DimensionMismatch) << "a question that never fits";
}

TEST_F(SessionTest, AChatThatOutgrowsTheContextHasItsOldestTurnsSummedUpOrStops) {
  Session session({.model = folder_.path(), .engine = {.context = 250}});
  const TextOptions options{.max_tokens = 8, .sampling = {.temperature = 0}};
  Chat summing(session, options, "", FullContext::summarize);
  for (int turn = 0; turn < 12; ++turn) EXPECT_EQ(summing.answer("hi").text, "ok");
  EXPECT_GT(summing.forgotten(), 0);
  EXPECT_EQ(summing.summary(), "ok");
  Chat stopping(session, options, "", FullContext::stop);
  EXPECT_THROW(
      {
        for (int turn = 0; turn < 20; ++turn) stopping.answer("hi");
      },
      DimensionMismatch);
  EXPECT_EQ(stopping.forgotten(), 0);
}

TEST_F(SessionTest, AChatAnswersItsLastQuestionAgainAndTakesAnotherSystemMessage) {
  Session session = open();
  Chat chat(session, {.sampling = {.temperature = 0}});
  EXPECT_THROW(chat.retry(), InvalidConfig);
  chat.answer("hi");
  const std::int64_t tokens = chat.tokens();
  EXPECT_EQ(chat.retry().text, "ok");
  EXPECT_EQ(chat.messages().size(), 2U);
  EXPECT_EQ(chat.tokens(), tokens);
  const auto fail = [](std::string_view) -> bool { throw Error("nobody listens"); };
  EXPECT_THROW(chat.retry(fail), Error);
  EXPECT_EQ(chat.messages().size(), 2U) << "the answer of before stays";
  chat.set_system("be kind");
  chat.set_system("be brief");
  ASSERT_EQ(chat.messages().size(), 3U);
  EXPECT_EQ(chat.messages().front().content, "be brief");
  chat.reset();
  EXPECT_EQ(chat.messages().size(), 1U);
  chat.set_system("");
  EXPECT_TRUE(chat.messages().empty());
}

TEST_F(SessionTest, AModelWithoutATemplateIsNotForConversation) {
  write("chat_template.jinja", "");
  Session session = open();
  EXPECT_THROW(Chat(session, {}), InvalidConfig);
  EXPECT_THROW(Session({.model = folder_.path(), .batch = 17}), InvalidConfig);
}

}  // namespace
}  // namespace ingot::infer
