#include "ingot/train/language/config.h"

#include <cstdint>
#include <string>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"

namespace ingot {
namespace {

TEST(TrainConfig, UnknownKeysSuggestTheNearest) {
  Config file = Config::parse(
      "datasets: [{path: x}]\nfrom_scratch: true\nlearning_rat: 1\n"
      "architecture: {hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2}\n");
  try {
    read_train_config(file);
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_NE(std::string(error.what()).find("learning_rate"), std::string::npos) << error.what();
  }
}

TEST(TrainConfig, RecomputationIsATruthValueOrAWord) {
  const auto read = [](const std::string& line) {
    Config file = Config::parse("datasets: [{path: x}]\nmodel: some/dir\n" + line);
    return read_train_config(file).recompute;
  };
  EXPECT_EQ(read(""), Recompute::none);
  for (const char* word : {"false", "no", "off"})
    EXPECT_EQ(read(std::string("recompute: ") + word), Recompute::none);
  for (const char* word : {"true", "True", "yes", "full"})
    EXPECT_EQ(read(std::string("recompute: ") + word), Recompute::full);
  EXPECT_EQ(read("recompute: selective"), Recompute::selective);
  EXPECT_EQ(read("gradient_checkpointing: selective"), Recompute::selective);
  try {
    read("recompute: selctive");
    FAIL();
  } catch (const InvalidConfig& error) {
    const std::string text = error.what();
    for (const char* part :
         {"recompute", "false, selective, true, full", "did you mean 'selective'", "line 3"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TrainConfig read_with(const std::string& more) {
  Config file = Config::parse("datasets: [{path: x}]\nmodel: some/dir\n" + more);
  return read_train_config(file);
}

// What axolotl's own examples set.
TEST(TrainConfig, KeysOfAxolotlMeanWhatTheyMeanThere) {
  const TrainConfig c = read_with(
      "model_type: LlamaForCausalLM\ntokenizer_type: AutoTokenizer\nload_in_8bit: false\nload_in_4bit: "
      "false\n"
      "strict: false\ndataset_prepared_path: last_run_prepared\nval_set_size: 0.05\npad_to_sequence_len: "
      "true\n"
      "wandb_project:\nwandb_entity:\nwandb_watch:\nwandb_name:\nwandb_log_model:\noptimizer: "
      "adamw_torch_fused\n"
      "lr_scheduler: constant_with_warmup\nlearning_rate: 2e-5\ntrain_on_inputs: false\ngroup_by_length: "
      "false\n"
      "bf16: auto\nfp16:\ntf32: false\ngradient_checkpointing: offload\n"
      "gradient_checkpointing_kwargs:\n  use_reentrant: "
      "false\nearly_stopping_patience:\nresume_from_checkpoint:\n"
      "local_rank:\nxformers_attention:\nattn_implementation: flash_attention_2\nflash_attention: true\n"
      "plugins: [axolotl.integrations.liger.LigerPlugin]\nliger_rope: true\nwarmup_steps: 0.1\n"
      "evals_per_epoch: 2\neval_table_size:\nsaves_per_epoch: 1\ndebug:\ndeepspeed:\nfsdp:\nfsdp_config:\n"
      "fsdp_version: 2\nspecial_tokens:\n  pad_token: <|end_of_text|>\n  eos_token:\n");
  EXPECT_EQ(c.optimizer.name, "adamw");
  EXPECT_EQ(c.schedule.type, "constant");
  EXPECT_EQ(c.cache_dir, "last_run_prepared");
  EXPECT_EQ(c.recompute, Recompute::full);
  EXPECT_EQ(c.warmup_ratio, 0.1);
  EXPECT_EQ(c.evals_per_epoch, 2);
  EXPECT_EQ(c.saves_per_epoch, 1);
  EXPECT_EQ(c.samples.special_tokens.at("pad_token"), "<|end_of_text|>");
  EXPECT_EQ(read_with("bf16: true\n").dtype, DType::bf16);
  EXPECT_THROW(read_with("fp16: true\n"), InvalidConfig) << "which needs loss scaling";
  EXPECT_EQ(read_with("bf16: true\ntorch_dtype: f32\n").dtype, DType::f32);
  EXPECT_EQ(read_with("optimizer: paged_adamw_8bit\n").optimizer.name, "adamw_8bit");
  EXPECT_DOUBLE_EQ(read_with("learning_rate: 1e-4\neta_min: 2e-5\n").schedule.final_lr_fraction, 0.2);
  EXPECT_EQ(read_with("eval_strategy: epoch\n").evals_per_epoch, 1);
  EXPECT_EQ(read_with("save_strategy: \"no\"\n").save_steps, 0);
  EXPECT_EQ(read_with("adapter: lora\nlora_target_modules: \"layers.[0-9]+.self_attn.(q|v)_proj\"\n")
                .adapter.lora.target_regex,
            "layers.[0-9]+.self_attn.(q|v)_proj");
}

TEST(TrainConfig, ARunMayEndWhileItsRateStillRises) {
  const TrainConfig c = read_with("warmup_steps: 100\nlearning_rate: 1e-3\n");
  EXPECT_DOUBLE_EQ(run_schedule(c, 50)(25), run_schedule(c, 1000)(25));
}

TEST(TrainConfig, KeysThatChangeWhatIsLearnedAndAreNotHereSayWhatToWrite) {
  for (const std::string key : {"rl: ebft", "relora: true", "neftune_noise_alpha: 5",
                                "unfrozen_parameters: [lm_head]", "fp8: true", "qat: {weight_dtype: int4}"}) {
    const std::string name = key.substr(0, key.find(':'));
    const std::string message = test::message_of<InvalidConfig>([&] { read_with(key + "\n"); });
    EXPECT_NE(message.find(name + ": "), std::string::npos) << message;
    EXPECT_NE(message.find("line 3"), std::string::npos) << message;
    EXPECT_NO_THROW(read_with(name + ":\n")) << "null asks for nothing";
  }
  EXPECT_THROW(read_with("bf16: true\nfp16: true\n"), InvalidConfig);
  EXPECT_THROW(read_with("save_strategy: sometimes\n"), InvalidConfig);
  EXPECT_NO_THROW(read_with("deepspeed: zero2.json\nwandb_project: mine\n"));  // told, and gone on
}

TEST(TrainConfig, SchedulesOfTransformersAreKnownByName) {
  const auto rate = [](const std::string& keys, std::int64_t step) {
    const TrainConfig c = read_with("learning_rate: 0.01\nwarmup_steps: 10\n" + keys);
    return run_schedule(c, 50)(step);
  };
  EXPECT_NEAR(rate("lr_scheduler: constant_with_warmup\n", 30), 1, 1e-12);
  EXPECT_NEAR(rate("lr_scheduler: cosine_with_restarts\nlr_scheduler_kwargs: {num_cycles: 2}\n", 30), 1,
              1e-12);
  EXPECT_NEAR(rate("lr_scheduler: polynomial\nlr_scheduler_kwargs: {power: 2, lr_end: 0.001}\n", 30), 0.325,
              1e-12);
  EXPECT_NEAR(rate("lr_scheduler: polynomial\n", 50), 1e-5, 1e-12);
  EXPECT_NEAR(rate("lr_scheduler: inverse_sqrt\n", 40), 0.5, 1e-12);
  EXPECT_NEAR(rate("lr_scheduler: cosine_with_min_lr\nlr_scheduler_kwargs: {min_lr: 0.001}\n", 50), 0.1,
              1e-12);
  const std::string stable = "lr_scheduler: warmup_stable_decay\nlr_scheduler_kwargs: {num_decay_steps: 20";
  EXPECT_NEAR(rate(stable + "}\n", 30), 1, 1e-12);
  EXPECT_NEAR(rate(stable + "}\n", 35), 0.8535533905932737, 1e-12);
  EXPECT_NEAR(rate(stable + ", decay_type: linear}\n", 35), 0.75, 1e-12);
  EXPECT_EQ(read_with("optimizer: muon\n").optimizer.name, "muon");
  EXPECT_EQ(read_with("optimizer: normuon\nnormuon_beta2: 0.9\n").optimizer.normuon_beta2, 0.9);
}

TEST(TrainConfig, MatmulPrecisionIsOneOfTwo) {
  const auto parse = [](const std::string& value) {
    Config file = Config::parse("datasets: [{path: x}]\nmodel: some/dir\nmatmul_precision: " + value + "\n");
    return read_train_config(file);
  };
  EXPECT_EQ(parse("medium").matmul_precision, "medium");
  EXPECT_NE(test::message_of<InvalidConfig>([&] { parse("hihgest"); }).find("did you mean 'highest'"),
            std::string::npos);
}

TEST(TrainConfig, ExpertsAreForTheFamiliesThatHaveThem) {
  const auto parse = [](const std::string& architecture) {
    Config file =
        Config::parse("datasets: [{path: x}]\nrouter_aux_loss_coef: 0.02\narchitecture: {" + architecture +
                      ", hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2}\n");
    return read_train_config(file);
  };
  const TrainConfig mixtral = parse("model_type: mixtral");
  EXPECT_EQ(mixtral.architecture.num_experts, 8);
  EXPECT_EQ(mixtral.architecture.num_experts_per_tok, 2);
  EXPECT_EQ(mixtral.router_aux_loss_coef, 0.02);
  const LanguageConfig qwen = parse(
                                  "model_type: qwen3_moe, num_experts: 6, num_experts_per_tok: 3, "
                                  "moe_intermediate_size: 16, mlp_only_layers: [0]")
                                  .architecture;
  EXPECT_EQ(qwen.moe_intermediate_size, 16);
  EXPECT_FALSE(qwen.is_sparse(0));
  EXPECT_TRUE(qwen.is_sparse(1));
  EXPECT_NE(test::message_of<InvalidConfig>([&] { parse("num_experts: 4"); }).find("mixtral and qwen3_moe"),
            std::string::npos);
  EXPECT_NE(test::message_of<InvalidConfig>([&] {
              parse("model_type: mixtral, num_experts: 2, num_experts_per_tok: 3");
            }).find("num_experts_per_tok"),
            std::string::npos);
}

TEST(TrainConfig, AConfigurationThatARunHasWrittenReadsBackAsItWas) {
  for (const char* yaml :
       {"datasets: [{path: x}]\nmodel: some/dir\nmax_steps: 5\n",
        "datasets: [{path: x}]\nvalidation_datasets: [{path: y}]\narchitecture: {hidden_size: 32, "
        "num_hidden_layers: 2, num_attention_heads: 2}\n",
        "datasets: [{path: x}]\narchitecture: {model_type: mixtral, hidden_size: 32, num_hidden_layers: 2, "
        "num_attention_heads: 2}\n",
        "datasets: [{path: x}]\nrouter_aux_loss_coef: 0\narchitecture: {model_type: qwen3_moe, hidden_size: "
        "32, "
        "num_hidden_layers: 2, num_attention_heads: 2, mlp_only_layers: [0]}\n"}) {
    Config file = Config::parse(yaml);
    const TrainConfig config = read_train_config(file);
    Config written = Config::parse(file.dump(), "config.yaml");
    EXPECT_EQ(read_train_config(written).router_aux_loss_coef, config.router_aux_loss_coef);
    EXPECT_EQ(written.dump(), file.dump());
  }
  Config negative = Config::parse("datasets: [{path: x}]\nmodel: some/dir\nrouter_aux_loss_coef: -0.5\n");
  EXPECT_THROW(read_train_config(negative), InvalidConfig);
}

TEST(TrainConfig, ReadsTheKeysThatOtherTrainersUse) {
  Config file = Config::parse(
      "base_model: some/dir\nmicro_batch_size: 3\ngradient_checkpointing: true\nval_set_size: 0.2\nseed: 7\n"
      "lr_scheduler: wsd\nadam_beta2: 0.95\ndatasets: [{path: a.jsonl, type: jsonl, field: content}]\n");
  const TrainConfig c = read_train_config(file);
  EXPECT_EQ(c.model, "some/dir");
  EXPECT_EQ(c.per_device_train_batch_size, 3);
  EXPECT_EQ(c.recompute, Recompute::full);
  EXPECT_EQ(c.validation_split_ratio, 0.2);
  EXPECT_EQ(c.seed, 7U);
  EXPECT_EQ(c.schedule.type, "wsd");
  EXPECT_EQ(c.optimizer.beta2, 0.95);
  EXPECT_EQ(c.datasets.front().text_field, "content");
}

TEST(TrainConfig, ReadsTheKeysOfForecasts) {
  Config file = Config::parse(
      "model: some/dir\ndatasets: [{path: a}]\nbatch_size: 3\nepochs: 2\npatience: 4\nclip_grad_norm: 0.5\n"
      "lr: 0.1\nschedule: constant\n");
  const TrainConfig c = read_train_config(file);
  EXPECT_EQ(c.per_device_train_batch_size, 3);
  EXPECT_EQ(c.num_epochs, 2);
  EXPECT_EQ(c.early_stopping_patience, 4);
  EXPECT_EQ(c.optimizer.max_grad_norm, 0.5);
  EXPECT_EQ(c.optimizer.learning_rate, 0.1);
  EXPECT_EQ(c.schedule.type, "constant");
}

// As config.json's readers take it where it lists no layers.
TEST(TrainConfig, ModelsFromScratchSlideWhereTheirFamilyDoes) {
  const auto slides = [](const std::string& family, std::int64_t layers, const std::string& window) {
    Config file = Config::parse("datasets: [{path: x}]\narchitecture: {model_type: " + family +
                                ", hidden_size: 32, num_attention_heads: 2, num_hidden_layers: " +
                                std::to_string(layers) + window + "}\n");
    const LanguageConfig c = read_train_config(file).architecture;
    std::string kinds;
    for (std::int64_t i = 0; i < layers; ++i) kinds += c.slides(i) ? 'S' : 'F';
    return kinds;
  };
  const std::string window = ", sliding_window: 8";
  EXPECT_EQ(slides("gemma4_text", 8, window), "SSSSSFSF");
  EXPECT_EQ(slides("gemma3_text", 8, window), "SSSSSFSS");
  EXPECT_EQ(slides("gemma2", 4, window), "SFSF");
  EXPECT_EQ(slides("mistral", 3, window), "SSS");
  EXPECT_EQ(slides("gemma4_text", 3, ""), "FFF");
}

}  // namespace
}  // namespace ingot
