// Tokens that a run adds to its model: trained, written, put on and merged.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/export/convert_adapter.h"
#include "ingot/export/gguf.h"
#include "ingot/export/merge.h"
#include "ingot/infer/generation_config.h"
#include "ingot/infer/session.h"
#include "ingot/models/adapter/use_adapters.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/language/vocabulary.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/ops/view.h"
#include "ingot/train/language/language_trainer.h"

namespace ingot {
namespace {

constexpr const char* kTurn = "<|turn|>";

// A base model whose tokenizer has 280 tokens, and a text in which one more stands.
class NewTokens : public ::testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<test::TemporaryDirectory>();
    std::ofstream base(directory_->at("base.txt")), turns(directory_->at("turns.txt"));
    for (int i = 0; i < 200; ++i) {
      base << "The number " << i << " is followed by the number " << i + 1 << ".\n";
      turns << "What follows " << i << "?" << kTurn << "It is " << i + 1 << kTurn << "\n";
    }
    base.close();
    turns.close();
    for (const bool tied : {false, true}) {
      TrainConfig c = config("base" + std::to_string(static_cast<int>(tied)), "base.txt");
      c.from_scratch = true;
      apply_family(c.architecture);
      c.architecture.hidden_size = c.architecture.intermediate_size = 64;
      c.architecture.num_hidden_layers = 2;
      c.architecture.num_attention_heads = 4;
      c.architecture.num_key_value_heads = 2;
      c.architecture.tie_word_embeddings = tied;
      c.vocab_size = 280;
      base_[static_cast<std::size_t>(tied)] = LanguageTrainer(c).run().model_directory;
    }
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static TrainConfig config(const std::string& output, const std::string& text) {
    TrainConfig c;
    c.datasets = {{.path = directory_->at(text)}};
    c.output_dir = directory_->at(output);
    c.sequence_len = 32;
    c.per_device_train_batch_size = 4;
    c.max_steps = 12;
    c.optimizer.learning_rate = 1e-2;
    c.eval_steps = c.save_steps = 0;
    c.report_to = {};
    return c;
  }

  std::string base() const { return base_[static_cast<std::size_t>(GetParam())]; }
  TrainConfig tuning(const std::string& output) const {
    TrainConfig c = config(output + (GetParam() ? "-tied" : ""), "turns.txt");
    c.model = base();
    c.samples.new_tokens = {{kTurn, false}};
    return c;
  }
  TrainConfig with_adapter(const std::string& output, const std::string& format = {}) const {
    TrainConfig c = tuning(output + format);
    c.adapter.enabled = true;
    c.adapter.base_format = format;
    c.adapter.lora = {.r = 4, .lora_alpha = 8, .target_modules = {"all-linear"}};
    return c;
  }

  inline static std::unique_ptr<test::TemporaryDirectory> directory_;
  inline static std::string base_[2];
};

Tensor logits(const LanguageModel& model, const std::vector<std::int32_t>& ids) {
  const NoGrad no_grad;
  const Tensor tokens = Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
  return model.logits(model.hidden({.tokens = tokens}));
}

double farthest(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  EXPECT_EQ(x.size(), y.size());
  double most = 0;
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i)
    most = std::max(most, static_cast<double>(std::abs(x[i] - y[i])));
  return most;
}

TEST_P(NewTokens, RowsBeginAsTheMeanAndLeaveOldLogitsAsTheyWere) {
  const auto before = load_language_model(base()), after = load_language_model(base());
  grow_vocabulary(*after, 283);
  grow_vocabulary(*after, 12);  // has more
  const Tensor old = logits(*before, {7, 8, 9}), now = logits(*after, {7, 8, 9});
  ASSERT_EQ(now.dim(-1), 283);
  for (std::int64_t position = 0; position < 3; ++position) {
    double mean = 0;
    for (std::int64_t token = 0; token < 280; ++token) {
      const float a = old.data<float>()[position * 280 + token],
                  b = now.data<float>()[position * 283 + token];
      EXPECT_NEAR(a, b, 1e-5);
      mean += static_cast<double>(a) / 280;
    }
    for (std::int64_t token = 280; token < 283; ++token)
      EXPECT_NEAR(now.data<float>()[position * 283 + token], mean, 1e-4);
  }
  EXPECT_EQ(after->config.vocab_size, 283);
}

TEST_P(NewTokens, TrainWithTheWholeModelAndResumeWithTheSameBits) {
  const TrainResult whole = LanguageTrainer(tuning("whole")).run();
  const text::Tokenizer tokenizer = open_tokenizer(whole.model_directory);
  ASSERT_EQ(tokenizer.token_to_id(kTurn), 280);
  EXPECT_EQ(tokenizer.encode(kTurn).size(), 1U);
  EXPECT_EQ(load_language_model(whole.model_directory)->config.vocab_size, 281);
  TrainConfig part = tuning("part");
  int asked = 0;
  LanguageTrainer(part, {.should_stop = [&] { return ++asked == 5; }}).run();
  part.resume_from_checkpoint = true;
  EXPECT_EQ(read_file(LanguageTrainer(part).run().model_directory + "/model.safetensors"),
            read_file(whole.model_directory + "/model.safetensors"));
}

TEST_P(NewTokens, TrainByThemselvesBesideAnAdapterAndAreMergedWithIt) {
  for (const std::string format : {"", "q8_0"}) {
    LanguageTrainer trainer(with_adapter("lora", format));
    const double before = *trainer.evaluate();
    const TrainResult result = trainer.run();
    EXPECT_LT(*result.validation_loss, before - 0.5);
    const std::string adapter = result.model_directory;
    const std::string written = read_file(adapter + "/adapter_config.json");
    EXPECT_NE(written.find("trainable_token_indices"), std::string::npos);
    EXPECT_EQ(written.find("lm_head") != std::string::npos, !GetParam()) << written;

    const AdapterChoice choice{.path = adapter};
    const auto adapted = load_language_model(base());
    use_adapters(*adapted, {&choice, 1});
    ASSERT_EQ(adapted->config.vocab_size, 281);
    const std::string merged = directory_->at("merged" + format + (GetParam() ? "-tied" : ""));
    merge_model({.model = base(), .destination = merged, .adapters = {choice}});
    const auto whole = load_language_model(merged);
    EXPECT_LE(farthest(logits(*whole, {7, 280, 9}), logits(*adapted, {7, 280, 9})), 2e-4);
    EXPECT_EQ(open_tokenizer(merged).token_to_id(kTurn), 280);

    // The new token's row is its own now.
    const auto grown = load_language_model(base());
    grow_vocabulary(*grown, 281);
    const Tensor mean = narrow(grown->embed_tokens.weight.dense.value.detach(), 0, 280, 1),
                 row = narrow(whole->embed_tokens.weight.dense.value.detach(), 0, 280, 1);
    EXPECT_GT(farthest(row, mean), 1e-3);
  }
}

TEST_P(NewTokens, AreAddedToThoseOfTheAdapterThatARunGoesOnFrom) {
  TrainConfig first = with_adapter("first");
  const std::string begun = LanguageTrainer(first).run().model_directory;
  TrainConfig c = with_adapter("goes-on");
  c.adapter.start_from = begun;
  c.samples.new_tokens = {{"followed", false}};  // a piece of text that is one token from now on
  const std::string adapter = LanguageTrainer(c).run().model_directory;
  const text::Tokenizer tokenizer = open_tokenizer(adapter);
  EXPECT_EQ(tokenizer.token_to_id(kTurn), 280);
  EXPECT_EQ(tokenizer.token_to_id("followed"), 281);
  const std::string written = read_file(adapter + "/adapter_config.json");
  for (const char* id : {"280", "281"}) EXPECT_NE(written.find(id), std::string::npos) << written;
  const AdapterChoice choice{.path = adapter};
  const auto adapted = load_language_model(base());
  use_adapters(*adapted, {&choice, 1});
  EXPECT_EQ(adapted->config.vocab_size, 282);
}

// A copy of the base that has no rows for new tokens could not read them.
TEST_P(NewTokens, AreRowsOfTheReferenceOfPreferencesToo) {
  const std::string pairs = directory_->at("pairs.jsonl");
  std::ofstream file(pairs);
  for (int i = 0; i < 40; ++i)
    file << R"({"prompt": "What follows )" << i << R"(?<|turn|>", "chosen": "It is )" << i + 1
         << R"(", "rejected": "It is )" << i << R"("})" << '\n';
  file.close();
  for (const char* adapter : {"", "adapter: lora\nlora_modules_to_save: [lm_head]\n"}) {
    Config yaml = Config::parse(
        "base_model: " + base() + "\nrl: dpo\ndatasets: [{path: " + pairs +
            "}]\ntokens: ['<|turn|>']\nsequence_len: 48\nmicro_batch_size: 4\nmax_steps: 2\n"
            "val_set_size: 0\nreport_to: []\noutput_dir: " +
            directory_->at("dpo" + std::to_string(*adapter != 0) + (GetParam() ? "t" : "")) + "\n" + adapter,
        "train.yaml");
    EXPECT_NO_THROW(LanguageTrainer(read_train_config(yaml)).run()) << adapter;
  }
}

TEST_P(NewTokens, RowsBesideAnAdapterResumeWithTheSameBits) {
  const std::string expected =
      read_file(LanguageTrainer(with_adapter("rows")).run().model_directory + "/adapter_model.safetensors");
  TrainConfig part = with_adapter("rows-part");
  int asked = 0;
  LanguageTrainer(part, {.should_stop = [&] { return ++asked == 5; }}).run();
  part.resume_from_checkpoint = true;
  EXPECT_EQ(read_file(LanguageTrainer(part).run().model_directory + "/adapter_model.safetensors"), expected);
}

TEST_P(NewTokens, AreWrittenByASessionWithTheAdapter) {
  TrainConfig c = with_adapter("session");
  c.max_steps = 60;
  const std::string adapter = LanguageTrainer(c).run().model_directory;
  infer::SessionOptions options;
  options.model = base();
  options.device = "cpu";
  options.adapters = {{.path = adapter}};
  infer::Session session(options);
  EXPECT_EQ(session.tokenizer().token_to_id(kTurn), 280);
  const std::vector<std::int32_t> prompt = session.encode("What follows 17?");
  infer::TextOptions text;
  text.max_tokens = 1;
  text.sampling.temperature = 0;
  EXPECT_EQ(session.engine().generate(session.request(prompt, text)).tokens, std::vector<std::int32_t>{280});
}

TEST_P(NewTokens, AreInTheGgufOfAMergedModel) {
  const std::string adapter = LanguageTrainer(with_adapter("gguf")).run().model_directory;
  const std::string name = directory_->at(GetParam() ? "merged-gguf-tied" : "merged-gguf");
  merge_model({.model = base(), .destination = name, .adapters = {{.path = adapter}}});
  const std::string file = name + ".gguf";
  write_gguf_model(name, file, {.encoding = {.dtype = DType::f32}});
  EXPECT_EQ(open_tokenizer(file).token_to_id(kTurn), 280);
  EXPECT_LE(farthest(logits(*load_language_model(file), {7, 280, 9}),
                     logits(*load_language_model(name), {7, 280, 9})),
            1e-4);
}

TEST_P(NewTokens, WholeMatricesBesideAnAdapterHaveTheirRowsToo) {
  TrainConfig c = with_adapter("saved");
  c.adapter.lora.modules_to_save = {"embed_tokens", "lm_head"};
  const TrainResult result = LanguageTrainer(c).run();
  const AdapterChoice choice{.path = result.model_directory};
  const auto adapted = load_language_model(base());
  use_adapters(*adapted, {&choice, 1});
  EXPECT_EQ(adapted->config.vocab_size, 281);
  EXPECT_EQ(read_file(choice.path + "/adapter_config.json").find("token_adapter"), std::string::npos);
  TrainConfig again = with_adapter("saved-again");
  again.adapter.start_from = choice.path;
  EXPECT_NEAR(*LanguageTrainer(again).evaluate(), *result.validation_loss, 1e-5);
}

TEST_P(NewTokens, OthersThanTheRunsAreRefusedOnResume) {
  TrainConfig c = with_adapter("others");
  c.max_steps = 2;
  LanguageTrainer(c).run();
  c.resume_from_checkpoint = true;
  c.samples.new_tokens.emplace_back("<|more|>", false);
  try {
    LanguageTrainer again(c);
    FAIL() << "it went on";
  } catch (const InvalidConfig& error) {
    EXPECT_NE(std::string(error.what()).find("tokens: is"), std::string::npos) << error.what();
  }
}

TEST_P(NewTokens, OfTwoAdaptersWithOneIdAreRefusedByName) {
  TrainConfig c = with_adapter("one");
  c.max_steps = 1;
  const std::string one = LanguageTrainer(c).run().model_directory;
  c = with_adapter("two");
  c.max_steps = 1;
  c.samples.new_tokens = {{"<|other|>", false}};
  const std::string two = LanguageTrainer(c).run().model_directory;
  c = with_adapter("more");
  c.max_steps = 1;
  c.samples.new_tokens.emplace_back("<|other|>", false);
  const std::string more = LanguageTrainer(c).run().model_directory;
  const std::vector<AdapterChoice> apart{{.path = one}, {.path = two}}, alike{{.path = one}, {.path = more}};
  EXPECT_EQ(open_tokenizer(base(), alike).vocab_size(), 282);
  const std::string message =
      test::message_of<InvalidConfig>([&] { static_cast<void>(open_tokenizer(base(), apart)); });
  for (const std::string& part :
       {one, two, std::string("token 280"), std::string(kTurn), std::string("<|other|>")})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_P(NewTokens, StayWithAnAdapterOfAnotherDtype) {
  TrainConfig c = with_adapter("dtype");
  c.max_steps = 1;
  const std::string adapter = LanguageTrainer(c).run().model_directory;
  write_file_atomically(adapter + "/chat_template.jinja", "{{ messages }}");
  const std::string half = directory_->at(GetParam() ? "half-tied" : "half");
  convert_adapter({.source = adapter, .destination = half, .dtype = "bf16", .base = base()});
  EXPECT_EQ(open_tokenizer(half).token_to_id(kTurn), 280);
  EXPECT_EQ(read_file(half + "/chat_template.jinja"), "{{ messages }}");
  EXPECT_LT(read_file(half + "/adapter_model.safetensors").size(),
            read_file(adapter + "/adapter_model.safetensors").size());
}

TEST_P(NewTokens, ThatEndTextsDoSoInAMergedModel) {
  TrainConfig c = with_adapter("ending");
  c.max_steps = 1;
  c.samples.new_tokens = {{kTurn, true}};
  c.samples.special_tokens["eos_token"] = kTurn;
  const std::string adapter = LanguageTrainer(c).run().model_directory;
  const std::string merged = directory_->at(GetParam() ? "ending-merged-tied" : "ending-merged");
  merge_model({.model = base(), .destination = merged, .adapters = {{.path = adapter}}});
  const auto ends = infer::GenerationConfig::of_model(merged).end_tokens();
  EXPECT_NE(std::ranges::find(ends, 280), ends.end()) << read_file(merged + "/generation_config.json");
}

TEST_P(NewTokens, AreNotLookedForWhereAnAdapterHasNone) {
  TrainConfig c = with_adapter("none");
  c.max_steps = 1;
  c.samples.new_tokens.clear();
  const std::string adapter = LanguageTrainer(c).run().model_directory;
  const std::string model = directory_->at(GetParam() ? "unreadable-tied" : "unreadable");
  std::filesystem::copy(base(), model, std::filesystem::copy_options::recursive);
  write_file_atomically(model + "/tokenizer.json", "of another kind");
  const std::string merged = model + "-merged";
  merge_model({.model = model, .destination = merged, .adapters = {{.path = adapter}}});
  EXPECT_EQ(read_file(merged + "/tokenizer.json"), "of another kind");
}

INSTANTIATE_TEST_SUITE_P(Heads, NewTokens, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "tied" : "untied"; });

TEST(NewTokenKeys, ListsAndNamesAreReadAsAxolotlDoes) {
  Config yaml = Config::parse(
      "base_model: m\ndatasets: [{path: t.txt}]\ntokens: ['<a>', '<b>']\n"
      "special_tokens: {eos_token: '<e>', pad_token: '<p>', additional_special_tokens: ['<s>']}\n",
      "train.yaml");
  const TrainConfig c = read_train_config(yaml);
  using Tokens = std::vector<std::pair<std::string, bool>>;
  EXPECT_EQ(c.samples.new_tokens, (Tokens{{"<e>", true}, {"<s>", true}, {"<a>", false}, {"<b>", false}}));
}

}  // namespace
}  // namespace ingot
