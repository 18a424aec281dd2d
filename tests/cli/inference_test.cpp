#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <termios.h>
#include <unistd.h>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"
#include "ingot/text/bpe_trainer.h"

namespace ingot::testing {
namespace {

namespace fs = std::filesystem;

// A tiny model with random weights, a tokenizer and a chat template.
class InferenceCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    text::Tokenizer tokenizer = text::train_bpe({.vocab_size = 300}, kText);
    text::TokenizerConfig names = tokenizer.config();
    names.chat_template =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    LanguageConfig config;
    config.vocab_size = tokenizer.vocab_size();
    config.hidden_size = 64;
    config.intermediate_size = 96;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 4;
    config.num_key_value_heads = 2;
    config.max_position_embeddings = 2048;
    InitSource init(3);
    LanguageModel model(config, init);
    write_language_model(directory_, model.config, parameter_map(model));
    tokenizer.with_config(names).save_directory(directory_);
    write_file_atomically(directory_ + "/text.txt", std::string(kText));
  }

  nlohmann::json json(std::vector<std::string> words) {
    words.emplace_back("--json");
    const Outcome outcome = run_ingot(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return parse_json_or_discard<nlohmann::json>(outcome.output);
  }

  static constexpr std::string_view kText =
      "the quick brown fox jumps over the lazy dog and the quick brown fox sleeps. the quick brown fox "
      "wakes up and jumps over the lazy dog once more, and the lazy dog does not mind at all.\n";
  const test::TemporaryDirectory folder_;
  const std::string directory_ = folder_.path();
};

TEST_F(InferenceCommands, GenerateWritesOneTextWhateverTheSettingsOfSpeed) {
  const std::vector<std::string> base{"generate", directory_, "-p", "the quick brown fox jumps over",
                                      "-n",       "20",       "-t", "0"};
  const auto expected = json(base)["tokens"];
  EXPECT_EQ(expected.size(), 20U);
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--chunk", "3"}, {"--threads", "1"}, {"--threads", "3"}, {"--speculate", "7"}}) {
    std::vector<std::string> words = base;
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(json(words)["tokens"], expected) << more.front();
  }
}

TEST_F(InferenceCommands, SeveralPromptsComeOutAsEachDoesAlone) {
  const std::vector<std::string> prompts{"the quick", "brown fox jumps over", "lazy"};
  std::vector<std::string> together{"generate", directory_, "-n", "12", "-t", "0", "--batch", "2"};
  for (const std::string& prompt : prompts) together.insert(together.end(), {"-p", prompt});
  const auto texts = json(together)["texts"];
  ASSERT_EQ(texts.size(), 3U);
  std::string shown;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto alone = json({"generate", directory_, "-n", "12", "-t", "0", "-p", prompts[i]});
    EXPECT_EQ(texts[i]["text"], alone["text"]);
    shown += (i > 0 ? "\n---\n" : "") + alone["text"].get<std::string>() + "\n";
  }
  EXPECT_EQ(run_ingot(together).output, shown);
  write_file_atomically(directory_ + "/prompts.txt", "the quick\nbrown fox jumps over\n\nlazy\n");
  const auto from_file =
      json({"generate", directory_, "-n", "12", "-t", "0", "--prompts", directory_ + "/prompts.txt"});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(from_file["texts"][i]["text"], texts[i]["text"]);
}

TEST_F(InferenceCommands, QuantizeWritesAModelThatRunsAndReportsWhatItCosts) {
  const std::string text = directory_ + "/text.txt";
  const auto written = json({"quantize", directory_, directory_ + "-q8.gguf", "--format", "q8_0", "--report",
                             text, "--window", "32", "--stride", "16"});
  EXPECT_EQ(written["format"], "q8_0");
  EXPECT_GT(written["bytes"].get<int>(), 0);
  const auto row = written["report"]["formats"][0];
  const double reference = written["report"]["perplexity"];
  EXPECT_NEAR(row["as_run"]["perplexity"].get<double>(), reference, 0.01 * reference);
  EXPECT_LT(row["as_run"]["kl"].get<double>(), 1e-3);
  const auto of_file = [&](const std::string& model) {
    return json({"perplexity", model, "--text", text, "--window", "32", "--stride", "16"})["perplexity"]
        .get<double>();
  };
  EXPECT_NEAR(of_file(directory_ + "-q8.gguf"), row["as_run"]["perplexity"].get<double>(), 0.01 * reference);
  const Outcome again =
      run_ingot({"quantize", directory_ + "-q8.gguf", directory_ + "-again.gguf", "--format", "Q4_0"});
  EXPECT_EQ(again.exit_code, 0) << "any case will do: " << again.errors;
  EXPECT_NE(again.errors.find("holds Q8_0 already"), std::string::npos) << again.errors;
  const auto beside = json({"quantize", directory_, "--report", text, "--compare", directory_ + "-q8.gguf",
                            "--window", "32", "--stride", "16"})["report"]["formats"];
  ASSERT_EQ(beside.size(), 1U);
  EXPECT_EQ(beside[0]["format"], directory_ + "-q8.gguf");
  EXPECT_EQ(beside[0]["as_run"], row["as_run"]);
  fs::remove(directory_ + "-q8.gguf");
  for (const char* format : {"fp8", "fp8-128x128", "int4-g32"}) {
    fs::remove_all(directory_ + "-out");
    json({"quantize", directory_, directory_ + "-out", "--format", format});
    EXPECT_NEAR(of_file(directory_ + "-out"), reference, 0.2 * reference) << format;
  }
  fs::remove_all(directory_ + "-out");
  json({"quantize", directory_, directory_ + "-out", "--format", "int4-g32", "--calibrate", text,
        "--calibration-window", "16"});
  EXPECT_NEAR(of_file(directory_ + "-out"), reference, 0.2 * reference) << "GPTQ";
  fs::remove_all(directory_ + "-out");
  json({"quantize", directory_, directory_ + "-out", "--format", "int4-g32", "--calibrate", text,
        "--calibration-window", "16", "--method", "awq+gptq"});
  EXPECT_NEAR(of_file(directory_ + "-out"), reference, 0.2 * reference) << "AWQ and GPTQ";
  fs::remove_all(directory_ + "-out");
  const std::string matrix = directory_ + "-imatrix.gguf", first = directory_ + "-a.gguf",
                    second = directory_ + "-b.gguf";
  EXPECT_GT(json({"imatrix", directory_, "--text", text, "--window", "16", "-o", matrix})["tensors"], 0);
  json({"quantize", directory_, first, "--format", "q4_0", "--imatrix", matrix});
  json({"quantize", directory_, second, "--format", "q4_0", "--calibrate", text, "--calibration-window",
        "16"});
  EXPECT_EQ(read_file(first), read_file(second));
  const auto all = json({"quantize", directory_, "--report", text, "--window", "32", "--stride", "16"});
  EXPECT_GT(all["report"]["formats"].size(), 15U);
}

TEST_F(InferenceCommands, PerplexityAndReportsReadTextInAnEncodingThatIsNamed) {
  const std::string latin1 = directory_ + "/latin1.txt", utf8 = directory_ + "/utf8.txt";
  std::string text(kText), bytes(kText);
  for (int i = 0; i < 40; ++i) {
    text += "f\u00fcr ";
    bytes += "f\xfcr ";
  }
  write_file_atomically(utf8, text);
  write_file_atomically(latin1, bytes);
  const auto of = [&](const std::string& file, std::vector<std::string> more) {
    std::vector<std::string> words{"perplexity", directory_, "--text",   file,
                                   "--window",   "32",       "--stride", "16"};
    words.insert(words.end(), more.begin(), more.end());
    return run_ingot(words);
  };
  const Outcome refused = of(latin1, {});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("'encoding'"), std::string::npos) << refused.errors;
  EXPECT_EQ(of(latin1, {"--encoding", "latin1"}).output, of(utf8, {}).output);
  EXPECT_EQ(json({"quantize", directory_, "--format", "q8_0", "--report", latin1, "--encoding", "latin1",
                  "--window", "32", "--stride", "16"})["report"]["perplexity"],
            json({"quantize", directory_, "--format", "q8_0", "--report", utf8, "--window", "32", "--stride",
                  "16"})["report"]["perplexity"]);
}

TEST_F(InferenceCommands, QuantizeItsReportAndGenerateNameTheFormatsThatStandIn) {
  const test::TemporaryDirectory out;
  const std::vector<std::string> report{"--format", "q4_k", "--report", directory_ + "/text.txt",
                                        "--window", "32",   "--stride", "16"};
  std::vector<std::string> planned{"quantize", directory_}, both{"quantize", directory_, out.at("q4.gguf")};
  planned.insert(planned.end(), report.begin(), report.end());
  both.insert(both.end(), report.begin(), report.end());
  const auto written = json(both), of_plan = json(planned)["report"]["formats"][0];
  const auto of_file = written["report"]["formats"][0];
  ASSERT_EQ(written["stand_ins"].size(), 2U);  // q5_0 in the layers, q8_0 in the head
  EXPECT_EQ(written["stand_ins"], of_file["stand_ins"]);
  EXPECT_EQ(of_plan["stand_ins"].size(), 2U);
  const double error = of_plan["weight_error"];
  EXPECT_NEAR(of_file["weight_error"].get<double>(), error, 0.01 * error);
  EXPECT_NEAR(of_plan["as_run"]["kl"].get<double>(), of_file["as_run"]["kl"].get<double>(), 1e-9);
  const Outcome generated = run_ingot({"generate", directory_, "--format", "q4_k", "-p", "the", "-n", "1"});
  EXPECT_NE(generated.errors.find("q5_0 in place of q4_k in 14"), std::string::npos) << generated.errors;
}

TEST_F(InferenceCommands, QuantizeNamesWhatItCannotWrite) {
  const auto errors = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"quantize", directory_});
    const Outcome outcome = run_ingot(words);
    EXPECT_NE(outcome.exit_code, 0);
    return outcome.errors;
  };
  EXPECT_NE(errors({}).find("--report"), std::string::npos);
  EXPECT_NE(
      errors({directory_ + "-out", "--format", "nf4", "--compare", directory_}).find("give --report TEXT"),
      std::string::npos);
  EXPECT_NE(errors({directory_ + "-out", "--format", "q4_k"}).find("int4-g128"), std::string::npos);
  EXPECT_NE(errors({directory_ + "-out.gguf", "--format", "nf4"}).find("Q4_K"), std::string::npos);
  for (const char* ending : {".onnx", ".GGUF", ".safetensors"})
    EXPECT_NE(errors({directory_ + ending, "--format", "nf4"}).find("end the name in .gguf or nothing"),
              std::string::npos);
  EXPECT_NE(errors({directory_ + "-out.gguf", "--format", "q4k"}).find("q4_k"), std::string::npos);
  EXPECT_FALSE(fs::exists(directory_ + "-out"));
}

TEST_F(InferenceCommands, BenchMatmulTimesEachFormatAgainstAnother) {
  const auto bench = json({"bench", "matmul", "--out", "64", "--in", "256", "--runs", "1", "--format", "q4_k",
                           "--format", "nf4", "--against", "q8_0"});
  ASSERT_EQ(bench["formats"].size(), 3U);
  EXPECT_EQ(bench["formats"][0]["format"], "q8_0");
  EXPECT_EQ(bench["formats"][0]["ratio"], 1.0);
  EXPECT_GT(bench["formats"][2]["gflops"].get<double>(), 0);
}

TEST_F(InferenceCommands, BenchServeRefusesTimesBelowZero) {
  for (const std::string option : {"--slo-ttft", "--slo-tpot", "--slo-e2e"}) {
    const Outcome outcome = run_ingot({"bench", "serve", "--requests", "1", option + "=-5"});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
    EXPECT_NE(outcome.errors.find(option), std::string::npos) << outcome.errors;
    EXPECT_NE(outcome.errors.find("-5"), std::string::npos) << outcome.errors;
  }
}

TEST_F(InferenceCommands, BenchKernelsSetsEachAgainstCopiesAndMatmuls) {
  const auto check = [](const nlohmann::json& bench) {
    for (const auto& kernel : bench["kernels"]) {
      EXPECT_GT(kernel["bytes"].get<double>(), 0) << kernel;
      EXPECT_GT(kernel["share_of_copy"].get<double>(), 0) << kernel;
      const auto name = kernel["kernel"].get<std::string>();
      const bool products = (name.starts_with("attention") && name != "attention_decode") ||
                            name.starts_with("conv") || name == "delta_rule";
      EXPECT_EQ(kernel.contains("share_of_matmul_rate"), products) << kernel;
    }
  };
  const std::vector<std::string> words{"bench",      "kernels", "--device", "cpu", "--megabytes", "1",
                                       "--sequence", "64",      "--runs",   "1",   "--dtype"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return json(more);
  };
  const auto all = with({"f32"});
  EXPECT_EQ(all["kernels"].size(), 32U);  // without those that take minutes on a CPU
  check(all);
  check(with({"bf16", "--kernel", "attention", "--kernel", "gelu", "--kernel", "cross_entropy"}));
  const auto slow = json({"bench", "kernels", "--device", "cpu", "--sequence", "1", "--megabytes", "1",
                          "--runs", "1", "--kernel", "fp8_matmul_blocks"});
  ASSERT_EQ(slow["kernels"].size(), 1U);
  EXPECT_EQ(slow["kernels"][0]["operations"].get<double>(), 2.0 * 4096 * 4096);
  const auto one = json({"bench", "kernels", "--device", "cpu", "--megabytes", "1", "--runs", "1", "--kernel",
                         "rope", "--kernel", "adamw", "--kernel", "adamw_8bit"});
  ASSERT_EQ(one["kernels"].size(), 3U);
  constexpr double elements = 61 * 4096;  // whole rows of 4096 floats in a megabyte
  // f32: weights and two moments there and back, gradients there; or the moments' codes and scales.
  EXPECT_EQ(one["kernels"][1]["bytes"].get<double>(), 7 * 4 * elements);
  EXPECT_EQ(one["kernels"][2]["bytes"].get<double>(), (3 * 4 + 4 + 4 * 4.0 / 256) * elements);
}

TEST_F(InferenceCommands, BenchProductsRepeatsThoseOfAStep) {
  const auto bench = json({"bench", "step-matmuls", "--shape", "demo", "--device", "cpu", "--batch", "2",
                           "--sequence", "16", "--seconds", "0.3"});
  // Weights [out, in] of six layers of 192, with 6 heads, 2 groups and an MLP of 512, and 2048 classes.
  const double weights = 192.0 * (6 * (2 * 192 + 2 * 64 + 3 * 512) + 2048);
  EXPECT_EQ(bench["flops_of_step"].get<double>(), 6 * 2 * 16 * weights);
  double flops = 0, share = 0;
  for (const auto& product : bench["matmuls"]) {
    const double one =
        2 * product["m"].get<double>() * product["n"].get<double>() * product["k"].get<double>();
    EXPECT_NEAR(one, product["gflops"].get<double>() * 1e9 * product["seconds"].get<double>(), 1e-6 * one);
    flops += one * product["count"].get<double>();
    share += product["share"].get<double>();
  }
  EXPECT_EQ(flops, bench["flops_of_step"].get<double>());
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_NEAR(bench["sustained_gflops"].get<double>() * bench["step_ms"].get<double>() * 1e6, flops,
              1e-6 * flops);
  double done = 0, until = 0;
  for (const auto& window : bench["windows"]) {
    done += window["gflops"].get<double>() * window["seconds"].get<double>() * 1e9;
    EXPECT_GT(window["until"].get<double>(), until);
    until = window["until"].get<double>();
    EXPECT_FALSE(window.contains("watts"));
  }
  EXPECT_GE(until, 0.3);
  EXPECT_EQ(until, bench["seconds"].get<double>());
  EXPECT_NEAR(done, flops * bench["steps"].get<double>(), 1e-6 * done);
  const Outcome text = run_ingot(
      {"bench", "step-matmuls", "--shape", "demo", "--batch", "1", "--sequence", "8", "--seconds", "0.01"});
  EXPECT_NE(text.output.find("sustained"), std::string::npos) << text.output << text.errors;
  EXPECT_NE(text.output.find("q_proj, o_proj"), std::string::npos) << text.output;
  for (const char* option : {"--seconds", "--batch", "--sequence"})
    EXPECT_NE(run_ingot({"bench", "step-matmuls", option, "0"}).errors.find(option), std::string::npos)
        << option;
}

TEST_F(InferenceCommands, BenchFinetuneTimesStepsOnDenseAndQuantizedBases) {
  for (const char* base : {"f32", "nf4"}) {
    const auto bench =
        json({"bench", "finetune", "--shape", "demo", "--base", base, "--dtype", "f32", "--rank", "2",
              "--batch", "1", "--sequence", "8", "--accumulate", "2", "--runs", "1"});
    EXPECT_GT(bench["step_ms"].get<double>(), 0);
    EXPECT_NEAR(bench["tokens_per_second"].get<double>() * bench["step_ms"].get<double>(), 16e3, 1e-6);
    EXPECT_EQ(bench["base"], base);
  }
  EXPECT_NE(run_ingot({"bench", "finetune", "--base", "q9"}).errors.find("nf4"), std::string::npos);
  EXPECT_NE(run_ingot({"bench", "finetune", "--rank", "0"}).errors.find("--rank"), std::string::npos);
}

TEST_F(InferenceCommands, BenchSelfplayTimesGamesNetworkAndSteps) {
  const auto bench = json({"bench", "selfplay", "--channels", "8", "--blocks", "1", "--tables", "4",
                           "--rollout-steps", "2", "--minibatch", "8", "--runs", "1"});
  for (const char* key : {"decisions_per_second", "evaluations_per_second", "step_ms", "games_share"})
    EXPECT_GT(bench[key].get<double>(), 0) << key;
  EXPECT_LT(bench["games_share"].get<double>(), 1);
  EXPECT_NE(run_ingot({"bench", "selfplay", "--tables", "0"}).errors.find("--tables"), std::string::npos);
}

TEST_F(InferenceCommands, WhatCannotBeIsNamed) {
  const auto errors = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"generate", directory_, "-p", "the"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_ingot(words);
    EXPECT_NE(outcome.exit_code, 0);
    return outcome.errors;
  };
  EXPECT_NE(errors({"--context", "2049"}).find("2048"), std::string::npos);
  EXPECT_NE(errors({"--speculate", "9"}).find("speculate"), std::string::npos);
  EXPECT_NE(errors({"--format", "q9_z"}).find("q9_z"), std::string::npos);
  EXPECT_NE(errors({"--kv-cache", "i3"}).find("i3"), std::string::npos);
  EXPECT_NE(errors({"--device", "gpu"}).find("'gpu' is not a device"), std::string::npos);
  EXPECT_NE(errors({"--device", "cuda:99"}).find("device not available: cuda:99"), std::string::npos);
}

TEST_F(InferenceCommands, PerplexityIsTheSameForEveryChunkAndNearForRoundedWeights) {
  const std::vector<std::string> base{"perplexity", directory_, "--text",   directory_ + "/text.txt",
                                      "--window",   "32",       "--stride", "16"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = base;
    words.insert(words.end(), more.begin(), more.end());
    return json(words)["perplexity"].get<double>();
  };
  const double expected = with({});
  EXPECT_GT(expected, 100);  // random weights know nothing of 300 tokens
  EXPECT_LT(expected, 900);
  EXPECT_NEAR(with({"--chunk", "5"}), expected, 1e-4 * expected);
  EXPECT_NEAR(with({"--kv-cache", "i8"}), expected, 1e-2 * expected);
  EXPECT_NEAR(with({"--format", "q8_0"}), expected, 1e-2 * expected);
}

TEST_F(InferenceCommands, ChatAnswersEveryLineOfAPipeAndKnowsItsCommands) {
  const Outcome outcome =
      run_ingot_with_input({"chat", directory_, "-t", "0", "-n", "5"},
                           "the quick\n/help\nbrown fox\n\n/reset\nthe quick\n/exit\nnever\n");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("/reset"), std::string::npos);
  // After /reset the first question gets its first answer again.
  std::vector<std::string> first{"chat", directory_, "-t", "0", "-n", "5"};
  const std::string answer = run_ingot_with_input(first, "the quick\n").output;
  EXPECT_FALSE(answer.empty());
  EXPECT_TRUE(outcome.output.starts_with(answer));
  EXPECT_TRUE(outcome.output.ends_with(answer));
}

TEST_F(InferenceCommands, ChatGoesOnBehindALineThatIsNotUtf8) {
  const Outcome outcome =
      run_ingot_with_input({"chat", directory_, "-t", "0", "-n", "5"}, "caf\xE9\n/reset\nthe quick\n");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("not UTF-8"), std::string::npos) << outcome.errors;
  EXPECT_TRUE(outcome.output.ends_with(
      run_ingot_with_input({"chat", directory_, "-t", "0", "-n", "5"}, "the quick\n").output));
}

TEST_F(InferenceCommands, ChatSavesTheConversationAndAnswersAgain) {
  const std::string file = directory_ + "/talk.jsonl";
  const Outcome outcome = run_ingot_with_input({"chat", directory_, "-t", "0", "-n", "5"},
                                               "/system be kind\nthe quick\n/retry\n/save " + file + "\n");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto messages = nlohmann::json::parse(read_file(file))["messages"];
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0], (nlohmann::json{{"role", "system"}, {"content", "be kind"}}));
  EXPECT_EQ(messages[1]["content"], "the quick");
  EXPECT_EQ(messages[2]["role"], "assistant");
}

// Waits until the line editor reads the keys: behind the prompt the terminal itself may still do so, and it
// keeps a Ctrl-D or a Ctrl-C to itself.
void type(int terminal, const char* keys) {
  termios mode{};
  while (::tcgetattr(terminal, &mode) == 0 && (mode.c_lflag & ICANON) != 0) ::usleep(1000);
  EXPECT_GT(::write(terminal, keys, std::strlen(keys)), 0);
}

TEST_F(InferenceCommands, CtrlCStopsAnAnswerOfAChatAndASecondOneAtThePromptLeaves) {
  enum class At : std::uint8_t { prompt, warned, answering, stopped, leaving } at = At::prompt;
  const auto has = [](const std::string& output, const char* text) {
    return output.find(text) != std::string::npos;
  };
  // What stands below the line of the prompt behind the warning.
  const auto answer_letters = [](const std::string& output) {
    const std::size_t line_end = output.find('\n', output.find("> ", output.find("Ctrl-C again")));
    return line_end == std::string::npos ? 0 : output.size() - line_end;
  };
  const Outcome outcome = run_ingot_on_terminal(
      {"chat", directory_, "-n", "4000", "--stats", "--no-history", "--logit-bias", "0=-inf"},
      [&](const std::string& output, pid_t child, int terminal) {
        if (child == 0) return;
        if (at == At::prompt && has(output, "> ")) {
          at = At::warned;
          type(terminal, "\x03");
        } else if (at == At::warned && has(output, "Ctrl-C again") && output.ends_with("> ")) {
          at = At::answering;
          type(terminal, "the quikc\x1b[D\x1b[D\x7f\x1b[Cck\x7f\n");  // edited into something that is sent
        } else if (at == At::answering && answer_letters(output) > 20) {
          at = At::stopped;
          ::kill(child, SIGINT);
        } else if (at == At::stopped && has(output, "of context]") && output.ends_with("> ")) {
          at = At::leaving;
          type(terminal, "\x03");
        }
      });
  EXPECT_EQ(at, At::leaving) << outcome.output;
  EXPECT_TRUE(has(outcome.output, "[stopped]")) << outcome.output;
  EXPECT_EQ(outcome.exit_code, 128 + SIGINT) << outcome.output;
}

TEST_F(InferenceCommands, ChatKeepsEachLineInAFileOfItsOwnerThoughTheTerminalIsClosed) {
  const std::string state = directory_ + "/state";
  ::setenv("XDG_STATE_HOME", state.c_str(), 1);
  const std::vector<std::string> words{"chat", directory_, "-n", "4", "--stats", "--logit-bias", "0=-inf"};
  bool asked = false, recalled = false;
  run_ingot_on_terminal(words, [&](const std::string& output, pid_t child, int terminal) {
    if (child == 0 || !output.ends_with("> ")) return;
    if (!std::exchange(asked, true)) {
      type(terminal, "the first question\n");
    } else if (output.find("of context]") != std::string::npos) {
      ::kill(child, SIGKILL);
    }
  });
  const std::string file = state + "/ingot/chat_history";
  EXPECT_NE(read_file(file).find("first"), std::string::npos) << read_file(file);
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const Outcome second =
      run_ingot_on_terminal(words, [&](const std::string& output, pid_t child, int terminal) {
        if (child == 0 || !output.ends_with("> ") || std::exchange(recalled, true)) return;
        type(terminal, "\x1b[A\n\x04");  // up, and what it shows is sent
      });
  ::unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(second.exit_code, 0) << second.output;
  EXPECT_NE(second.output.find("the first question"), std::string::npos) << second.output;
}

TEST_F(InferenceCommands, ReadsATextFromStandardInput) {
  std::vector<std::string> words{"perplexity", directory_, "--window", "32", "--stride", "16", "--text", "-"};
  const Outcome piped = run_ingot_with_input(words, std::string(kText));
  words.back() = directory_ + "/text.txt";
  EXPECT_EQ(piped.exit_code, 0) << piped.errors;
  EXPECT_EQ(piped.output, run_ingot(words).output);
}

TEST_F(InferenceCommands, ChatWithoutATemplatePointsToGenerate) {
  fs::remove(directory_ + "/tokenizer_config.json");
  const Outcome outcome = run_ingot_with_input({"chat", directory_}, "hello\n");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.errors.find("ingot generate"), std::string::npos) << outcome.errors;
}

// The shares of a breakdown add up to the whole, and it names kernels.
void expect_whole(const nlohmann::json& breakdown) {
  double shares = 0;
  for (const auto& row : breakdown) shares += row["share"].get<double>();
  EXPECT_NEAR(shares, 1, 1e-6);
  EXPECT_GT(breakdown[0]["launches"].get<double>(), 0);
}

TEST_F(InferenceCommands, BenchReportsRatesAndTheirLimits) {
  for (const char* work : {"decode", "prefill"}) {
    const auto found = json({"bench", work, directory_, "--device", "cpu", "-n", "16", "--runs", "1",
                             "--batch", "2", "--breakdown"});
    EXPECT_EQ(found["device"], "cpu");
    EXPECT_GT(found["tokens_per_second"].get<double>(), 0);
    EXPECT_GT(found["limit_tokens_per_second"].get<double>(), 0);
    expect_whole(found["breakdown"]);
    const auto shape = json({"bench", work, "--shape", "demo", "-n", "4", "--runs", "1"});
    EXPECT_EQ(shape["model"], "demo");
    EXPECT_GT(shape["tokens_per_second"].get<double>(), 0);
    const Outcome both = run_ingot({"bench", work, directory_, "--shape", "demo"});
    EXPECT_NE(both.errors.find("either a model or --shape"), std::string::npos) << both.errors;
  }
  const Outcome missing = run_ingot(
      {"bench", "decode", directory_, "-n", "2", "--runs", "1", "--against", "/nowhere/llama-bench"});
  EXPECT_NE(missing.errors.find("/nowhere/llama-bench"), std::string::npos);
}

// A program instead of Python: it gets the script and its options, and answers each line.
TEST_F(InferenceCommands, BenchTakesStepsInTurnWithAPeer) {
  const std::string python = directory_ + "/python";
  write_file_atomically(python,
                        "#!/bin/sh\necho \"$@\" > " + directory_ +
                            "/arguments\necho '{\"version\": \"9.9\"}'\n"
                            "while read -r line; do echo '{\"ms\": 100000.0, \"peak_mib\": 7}'; done\n");
  fs::permissions(python, fs::perms::owner_all);
  const std::vector<std::string> base{"bench",      "train", "--shape", "demo", "--batch",  "1",
                                      "--sequence", "16",    "--runs",  "2",    "--python", python};
  std::vector<std::string> words = base;
  words.insert(words.end(), {"--breakdown", "--against", "torch", "--against", "torch.compile"});
  const auto found = json(words);
  expect_whole(found["breakdown"]);
  ASSERT_EQ(found["peers"].size(), 2U) << dump_json(found);
  EXPECT_EQ(found["peers"][1]["name"], "torch.compile");
  EXPECT_EQ(found["peers"][0]["version"], "9.9");
  EXPECT_GT(found["peers"][0]["ratio"].get<double>(), 1.0);
  const std::string arguments = read_file(directory_ + "/arguments");
  for (const char* part :
       {"import torch", "--serve", "--shape demo", "--sequence 16", "--device cpu", "--compile"}) {
    EXPECT_NE(arguments.find(part), std::string::npos) << part;
  }
  words.insert(words.end(), {"--apart", "--torch-weights", "bf16"});
  const auto apart = json(words);
  ASSERT_EQ(apart["peers"].size(), 2U) << dump_json(apart);
  EXPECT_GT(apart["peers"][1]["ratio"].get<double>(), 1.0);
  EXPECT_NE(read_file(directory_ + "/arguments").find("--weights bf16"), std::string::npos);
  words.resize(words.size() - 3);
  const auto policy =
      json({"bench", "policy", "--runs", "2", "--breakdown", "--against", "torch", "--python", python});
  expect_whole(policy["breakdown"]);
  EXPECT_EQ(policy["peers"][0]["version"], "9.9");
  EXPECT_GT(policy["peers"][0]["ratio"].get<double>(), 1.0);
  write_file_atomically(python, "#!/bin/sh\nexit 1\n");
  fs::permissions(python, fs::perms::owner_all);
  words.resize(words.size() - 2);  // torch alone
  EXPECT_NE(run_ingot(words).errors.find(python), std::string::npos);
  words.back() = "tensorflow";
  EXPECT_EQ(run_ingot(words).exit_code, 2);
}

}  // namespace
}  // namespace ingot::testing
