#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/dist/communicator.h"
#include "ingot/kernels/instruction_set.h"
#include "ingot/models/policy/dual_pool_net.h"
#include "ingot/nn/param_source.h"
#include "ingot/weights/safetensors.h"

namespace ingot::testing {
namespace {

// `ingot train` as several processes under mpirun.
class RanksCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
    std::ofstream text(directory_ + "/text.txt");
    for (int i = 0; i < 300; ++i) text << "Line " << i << " comes before line " << i + 1 << ".\n";
    std::ofstream(directory_ + "/train.yaml")
        << "from_scratch: true\n"
           "architecture: {hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 2}\n"
           "vocab_size: 280\n"
           "datasets: [{path: "
        << directory_
        << "/text.txt}]\n"
           "sequence_len: 16\nper_device_train_batch_size: 2\nordered_gradients: true\nthreads: 1\n"
           "max_steps: 4\neval_steps: 2\nsave_steps: 2\nlearning_rate: 0.01\nreport_to: [jsonl]\ndevice: "
           "cpu\n";
  }

  int train(int ranks, int accumulate, const std::string& output, const std::string& more = "") const {
    return launch(
        "-n " + std::to_string(ranks) + " " +
        ingot(output, "--set gradient_accumulation_steps=" + std::to_string(accumulate) + " " + more));
  }
  // The command of a rank.
  std::string ingot(const std::string& output, const std::string& more) const {
    return INGOT_BINARY " train " + directory_ + "/train.yaml --json --set output_dir=" + directory_ + "/" +
           output + " " + more;
  }
  int launch(const std::string& ranks) const {
    const std::string command =
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 INGOT_CACHE_DIR=" + directory_ +
        "/cache timeout -k 5 90 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 " + ranks +
        " >" + directory_ + "/out 2>" + directory_ + "/errors";
    return std::system(command.c_str());
  }
  // The command of a rank without mpirun, with what another launcher sets.
  int alone(const std::string& variables) const {
    const std::string shell = "env " + variables + " " + ingot("x", "--set max_steps=1") + " >" + directory_ +
                              "/out 2>" + directory_ + "/errors";
    return std::system(shell.c_str());
  }
  std::string model(const std::string& output) const {
    return read_file(directory_ + "/" + output + "/model/model.safetensors");
  }
  // To rounding, of which AdamW's steps of 0.01 make more.
  void expect_near_models(const std::string& one, const std::string& other) const {
    const auto weights = [&](const std::string& output) {
      return read_safetensors(directory_ + "/" + output + "/model/model.safetensors");
    };
    const auto actual = weights(one), expected = weights(other);
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      ASSERT_TRUE(actual.contains(name)) << name;
      const std::vector<float> found = actual.at(name).to_vector<float>(), wanted = tensor.to_vector<float>();
      ASSERT_EQ(found.size(), wanted.size()) << name;
      for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-3) << name;
    }
  }
  std::string errors() const { return read_file(directory_ + "/errors"); }

  const test::TemporaryDirectory folder_;
  const std::string directory_ = folder_.path();
};

TEST_F(RanksCommand, AnyDivisionOfAStepAmongRanksGivesTheSameBits) {
  ASSERT_EQ(train(1, 6, "one"), 0) << errors();
  for (const auto& [ranks, accumulate, zero] : {std::tuple{2, 3, 0}, {3, 2, 2}, {2, 3, 3}, {3, 2, 3}}) {
    const std::string output = fmt::format("of{}-{}", ranks, zero);
    // What a stage 3 has to gather weights for changes no bits: recomputation, and texts that are written.
    const std::string more =
        zero == 3 && ranks == 3 ? " --set recompute=true --set sample_prompts=[Line]" : "";
    ASSERT_EQ(train(ranks, accumulate, output, "--set zero_stage=" + std::to_string(zero) + more), 0)
        << errors();
    EXPECT_TRUE(model(output) == model("one")) << ranks << " ranks, ZeRO " << zero;
    const std::string metrics = read_file(directory_ + "/" + output + "/metrics.jsonl");
    EXPECT_EQ(metrics.find("nan"), std::string::npos);
    // The most of any rank, and which that is.
    const auto memory =
        parse_json<nlohmann::json>(metrics.substr(metrics.rfind("{\"type\":\"memory\"")), "memory");
    EXPECT_EQ(memory["ranks"], ranks);
    EXPECT_GT(memory["peak_tensors"], 0);
    EXPECT_GT(memory["peak_resident"], memory["peak_tensors"]);
    EXPECT_LT(memory["peak_tensors_rank"], ranks);
  }
}

TEST_F(RanksCommand, RanksThatLowerTheLearningRateOnAPlateauDoSoTogether) {
  // No loss is as much lower as that asks for.
  const std::string watched =
      "--set plateau_steps=1 --set plateau_threshold=1 --set plateau_action=reduce --set "
      "lr_scheduler_type=constant";
  ASSERT_EQ(train(1, 6, "one", watched), 0) << errors();
  ASSERT_EQ(train(2, 3, "two", watched), 0) << errors();
  EXPECT_TRUE(model("two") == model("one"));
  const std::string metrics = read_file(directory_ + "/two/metrics.jsonl");
  EXPECT_NE(metrics.find(R"("event":"plateau")"), std::string::npos);
  EXPECT_NE(metrics.find("the learning rate is halved from step 4 on"), std::string::npos);
}

TEST_F(RanksCommand, ARunGoesOnWithAnotherNumberOfRanksAndAnotherZeroStage) {
  const std::string three = "--set max_steps=2 --set lr_scheduler_type=constant --set zero_stage=3";
  ASSERT_EQ(train(3, 2, "parts", three), 0) << errors();
  EXPECT_TRUE(
      std::filesystem::exists(directory_ + "/parts/checkpoint-000002/optimizer-00003-of-00003.safetensors"));
  ASSERT_EQ(train(1, 6, "whole", "--set lr_scheduler_type=constant"), 0) << errors();
  ASSERT_EQ(train(2, 3, "parts", "--set lr_scheduler_type=constant --resume"), 0) << errors();
  EXPECT_TRUE(model("parts") == model("whole"));
}

TEST_F(RanksCommand, AdaptersAndAveragesGoOnWithAnotherNumberOfRanksAndAnotherZeroStage) {
  ASSERT_EQ(train(1, 1, "base", "--set max_steps=1"), 0) << errors();
  const std::string tuned =
      "--set model=" + directory_ +
      "/base/model --set from_scratch=false --set architecture=null --set vocab_size=null "
      "--set adapter=qlora --set base_format=q8_0 --set lora_r=4 --set ema_decay=0.9 "
      "--set lr_scheduler_type=constant ";
  ASSERT_EQ(train(1, 6, "whole", tuned), 0) << errors();
  ASSERT_EQ(train(3, 2, "parts", tuned + "--set max_steps=2 --set zero_stage=3"), 0) << errors();
  EXPECT_TRUE(
      std::filesystem::exists(directory_ + "/parts/checkpoint-000002/ema-00003-of-00003.safetensors"));
  ASSERT_EQ(train(2, 3, "parts", tuned + "--set zero_stage=1 --resume"), 0) << errors();
  const auto adapter = [&](const std::string& output) {
    return read_file(directory_ + "/" + output + "/adapter/adapter_model.safetensors");
  };
  EXPECT_TRUE(adapter("parts") == adapter("whole"));
}

TEST_F(RanksCommand, ExpertsThatRanksShareGoOnFromTheirCheckpointWithAnyNumberOfRanks) {
  const std::string experts =
      "--set architecture.model_type=qwen3_moe --set architecture.num_experts=4 "
      "--set architecture.num_experts_per_tok=2 --set architecture.moe_intermediate_size=16 "
      "--set lr_scheduler_type=constant --set ordered_gradients=false ";
  const std::string shared = experts + "--set zero_stage=1 --set expert_parallel_size=2 ";
  ASSERT_EQ(train(2, 3, "whole", shared), 0) << errors();
  ASSERT_EQ(train(2, 3, "parts", shared + "--set max_steps=2"), 0) << errors();
  std::filesystem::copy(directory_ + "/parts", directory_ + "/alone",
                        std::filesystem::copy_options::recursive);
  ASSERT_EQ(train(2, 3, "parts", shared + "--resume"), 0) << errors();
  EXPECT_TRUE(model("parts") == model("whole"));
  ASSERT_EQ(train(1, 6, "alone", experts + "--resume"), 0) << errors();
  expect_near_models("alone", "whole");
  const auto last_loss = [&](const std::string& output) {
    const std::string metrics = read_file(directory_ + "/" + output + "/metrics.jsonl");
    return std::stod(metrics.substr(metrics.rfind("\"eval_loss\":") + 12));
  };
  EXPECT_NEAR(last_loss("alone"), last_loss("whole"), 1e-3);
  EXPECT_NE(read_file(directory_ + "/whole/metrics.jsonl").find("expert_load/rank_1"), std::string::npos);
}

TEST_F(RanksCommand, AdaptersOfSharedOutExpertsGoOnInOneProcessWithItsBits) {
  ASSERT_EQ(train(1, 1, "base",
                  "--set architecture.model_type=qwen3_moe --set architecture.num_experts=4 "
                  "--set architecture.num_experts_per_tok=2 --set architecture.moe_intermediate_size=16 "
                  "--set max_steps=1"),
            0)
      << errors();
  const std::string tuned =
      "--set model=" + directory_ +
      "/base/model --set from_scratch=false --set architecture=null --set vocab_size=null "
      "--set adapter=lora --set lora_r=4 --set lr_scheduler_type=constant ";
  ASSERT_EQ(train(1, 6, "whole", tuned), 0) << errors();
  ASSERT_EQ(train(2, 3, "parts", tuned + "--set max_steps=2 --set zero_stage=1 --set expert_parallel_size=2"),
            0)
      << errors();
  ASSERT_EQ(train(1, 6, "parts", tuned + "--resume"), 0) << errors();
  const auto adapter = [&](const std::string& output) {
    return read_file(directory_ + "/" + output + "/adapter/adapter_model.safetensors");
  };
  EXPECT_TRUE(adapter("parts") == adapter("whole"));
  EXPECT_NE(adapter("whole").find("mlp.experts.3.down_proj.lora_B"), std::string::npos);
}

TEST_F(RanksCommand, GroupsThatHaveAllExpertsEachGoOnAsOneProcess) {
  const std::string experts =
      "--set architecture.num_hidden_layers=1 --set architecture.model_type=qwen3_moe "
      "--set architecture.num_experts=2 --set architecture.num_experts_per_tok=1 "
      "--set architecture.moe_intermediate_size=16 --set lr_scheduler_type=constant "
      "--set ordered_gradients=false --set eval_steps=0 --set save_steps=1 ";
  ASSERT_EQ(train(1, 4, "alone", experts + "--set max_steps=2"), 0) << errors();
  ASSERT_EQ(
      train(4, 1, "groups", experts + "--set max_steps=1 --set zero_stage=1 --set expert_parallel_size=2"), 0)
      << errors();
  ASSERT_EQ(train(1, 4, "groups", experts + "--set max_steps=2 --resume"), 0) << errors();
  expect_near_models("groups", "alone");
}

TEST_F(RanksCommand, RanksThatDisagreeAreRefusedByKeyBeforeTheFirstStep) {
  EXPECT_NE(launch("-n 1 " + ingot("x", "") + " : -n 1 " + ingot("x", "--set learning_rate=0.5")), 0);
  EXPECT_NE(errors().find("learning_rate"), std::string::npos) << errors();
  EXPECT_NE(errors().find("rank 1"), std::string::npos) << errors();
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/x/metrics.jsonl"));
}

TEST_F(RanksCommand, OtherKernelsOnOneRankAreRefusedByName) {
  EXPECT_NE(launch("-n 1 " + ingot("x", "") + " : -n 1 env INGOT_BACKEND=cpu " + ingot("x", "")), 0);
  EXPECT_NE(errors().find("INGOT_BACKEND: is "), std::string::npos) << errors();
  EXPECT_NE(errors().find("on rank 1; install the same build"), std::string::npos) << errors();
}

TEST_F(RanksCommand, OtherMatmulsOfBf16OnOneRankAreRefusedWithWhatToSet) {
  if (kernels::instruction_set_limit() < kernels::InstructionSet::avx512_bf16)
    GTEST_SKIP() << "without dot products of bf16";
  const std::string bf16 = ingot("x", "--set torch_dtype=bf16");
  EXPECT_NE(
      launch("-n 1 env INGOT_BF16_DOT_PRODUCTS=0 " + bf16 + " : -n 1 env INGOT_BF16_DOT_PRODUCTS=1 " + bf16),
      0);
  EXPECT_NE(errors().find("matmuls of bf16: is widened to f32 on rank 0"), std::string::npos) << errors();
  EXPECT_NE(errors().find("with INGOT_BF16_DOT_PRODUCTS=0"), std::string::npos) << errors();
}

TEST_F(RanksCommand, ARankThatStallsIsNamedWithItsStep) {
  const std::string waits = "--set ddp_timeout=1 --set eval_steps=0 --set save_steps=0";
  EXPECT_NE(
      launch("-n 1 " + ingot("x", waits) + " : -n 1 env INGOT_FAULT=stop:train.step:2 " + ingot("x", waits)),
      0);
  EXPECT_NE(errors().find("rank 0 waited 1"), std::string::npos) << errors();
  EXPECT_NE(errors().find("of step 2: rank 1 on "), std::string::npos) << errors();
}

TEST_F(RanksCommand, ARankThatHangsWhileItLoadsIsNamedBySilence) {
  setenv("INGOT_RANK_SILENCE", "5", 1);  // NOLINT(concurrency-mt-unsafe)
  const int status =
      launch("-n 1 " + ingot("x", "") + " : -n 1 env INGOT_FAULT=hang:train.load:1 " + ingot("x", ""));
  unsetenv("INGOT_RANK_SILENCE");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_NE(status, 0);
  EXPECT_NE(errors().find("rank 0 waited "), std::string::npos) << errors();
  EXPECT_NE(errors().find("nothing was heard of rank 1 on "), std::string::npos) << errors();
  EXPECT_NE(errors().find("of the start; look what it does there"), std::string::npos) << errors();
}

TEST_F(RanksCommand, ARankThatDiesEndsTheRunAndTheNextGoesOnWithTheSameBits) {
  ASSERT_EQ(train(2, 3, "whole"), 0) << errors();
  setenv("INGOT_FAULT", "crash:train.step:3", 1);  // NOLINT(concurrency-mt-unsafe)
  const int crashed = train(2, 3, "killed", "--set zero_stage=1");
  unsetenv("INGOT_FAULT");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_NE(crashed, 0);
  ASSERT_EQ(train(2, 3, "killed", "--resume"), 0) << errors();
  EXPECT_TRUE(model("killed") == model("whole"));
}

// The directory of a run as one rank sees it: what that rank writes goes to a file system with little room.
class RanksWithAFullDisk : public RanksCommand {
 protected:
  void SetUp() override {
    RanksCommand::SetUp();
    if (IsSkipped()) return;
    std::filesystem::create_directories(directory_ + "/small");
    std::filesystem::create_directories(directory_ + "/probe");
    if (std::system((with_room("16k", "probe", "true") + " 2>/dev/null").c_str()) != 0)
      GTEST_SKIP() << "this process may mount no tmpfs and overlay in a namespace of its own";
  }

  // The mounts end with the process.
  std::string with_room(const std::string& room, const std::string& output,
                        const std::string& command) const {
    const std::string small = directory_ + "/small", place = directory_ + "/" + output;
    return fmt::format(
        "unshare --mount sh -c 'mount -t tmpfs -o size={3} tmpfs {0} && mkdir {0}/upper {0}/work && "
        "mount -t overlay -o lowerdir={1},upperdir={0}/upper,workdir={0}/work overlay {1} && exec {2}'",
        small, place, command, room);
  }
  std::vector<std::string> checkpoints(const std::string& output) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/" + output))
      if (entry.path().filename().string().find("checkpoint-") != std::string::npos)
        names.push_back(entry.path().filename());
    return names;
  }
};

TEST_F(RanksWithAFullDisk, TheRankIsNamedAndTheCheckpointBeforeGoesOnWithTheSameBits) {
  // The last of three finds out as it writes its part, the first before it begins one.
  const std::vector<std::string> last{"rank 2 could not write its part", "No space left on device"},
      first{"rank 0 on ", "a checkpoint needs", "but the disk has"};
  for (const auto& [is_first, zero] : {std::pair{true, 1}, {false, 3}}) {
    const std::string more = fmt::format(
                          "--set lr_scheduler_type=constant --set gradient_accumulation_steps=2 "
                          "--set zero_stage={} ",
                          zero),
                      whole = fmt::format("whole{}", zero), full = fmt::format("full{}", zero),
                      goes_on = ingot(full, more + "--resume");
    ASSERT_EQ(launch("-n 3 " + ingot(whole, more)), 0) << errors();
    ASSERT_EQ(launch("-n 3 " + ingot(full, more + "--set max_steps=2")), 0) << errors();
    const std::string ranks =
        is_first ? fmt::format("-n 1 {} : -n 2 {}", with_room("64k", full, goes_on), goes_on)
                 : fmt::format("-n 2 {} : -n 1 {}", goes_on, with_room("16k", full, goes_on));
    EXPECT_NE(launch(ranks), 0);
    for (const std::string& part : is_first ? first : last)
      EXPECT_NE(errors().find(part), std::string::npos) << part << ":\n" << errors();
    EXPECT_EQ(checkpoints(full), std::vector<std::string>{"checkpoint-000002"}) << full;
    ASSERT_EQ(launch("-n 3 " + goes_on), 0) << errors();
    EXPECT_TRUE(model(full) == model(whole)) << full;
  }
}

TEST_F(RanksCommand, ARankWithoutMemoryIsNamedWithItsHostAndTheCheckpointBeforeGoesOnWithTheSameBits) {
  const std::string more = "--set zero_stage=1 --set gradient_accumulation_steps=2 ",
                    run = ingot("run", more);
  ASSERT_EQ(launch("-n 3 " + ingot("whole", more)), 0) << errors();
  EXPECT_NE(launch("-n 1 " + run + " : -n 1 env INGOT_FAULT=memory:train.step:4 " + run + " : -n 1 " + run),
            0);
  EXPECT_NE(errors().find("rank 1 on " + dist::host_name() + ": "), std::string::npos) << errors();
  EXPECT_NE(errors().find("this needs more memory than there is"), std::string::npos) << errors();
  EXPECT_TRUE(
      std::filesystem::exists(directory_ + "/run/checkpoint-000002/optimizer-00003-of-00003.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/run/model"));
  ASSERT_EQ(launch("-n 3 " + run + "--resume"), 0) << errors();
  EXPECT_TRUE(model("run") == model("whole"));
}

TEST_F(RanksCommand, AnErrorIsToldOnceByTheFirstRank) {
  EXPECT_NE(train(3, 1, "x", "--set sequence_len=many"), 0);
  const std::string text = errors();
  const std::size_t first = text.find("sequence_len");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("sequence_len", text.find('\n', first)), std::string::npos) << text;
}

TEST_F(RanksCommand, SelfPlayThatLosesARankGoesOnWithTheSameBits) {
  InitSource source(2);
  DualPoolNet net(source,
                  {.input_channels = 96, .channels = 8, .blocks = 1, .norm_groups = 4, .se_reduction = 4});
  save_dual_pool_net(directory_ + "/base", net);
  std::ofstream(directory_ + "/ppo.yaml")
      << "phase: ppo\nthreads: 1\ntables: 4\nrollout_steps: 10\nminibatch_size: 12\nppo_epochs: 1\n"
         "max_steps: 4\nsave_steps: 2\neval_walls: 0\ndevice: cpu\nreport_to: [jsonl]\nbase_model: "
      << directory_ << "/base\n";
  const auto play = [&](const std::string& output, const std::string& more) {
    return INGOT_BINARY " mahjong train " + directory_ + "/ppo.yaml --json --set output_dir=" + directory_ +
           "/" + output + " " + more;
  };
  ASSERT_EQ(launch("-n 2 " + play("whole", "")), 0) << errors();
  EXPECT_NE(read_file(directory_ + "/out").find("\"steps\": 4"), std::string::npos);
  EXPECT_NE(launch("-n 1 " + play("killed", "") + " : -n 1 env INGOT_FAULT=crash:train.step:3 " +
                   play("killed", "")),
            0);
  ASSERT_EQ(launch("-n 2 " + play("killed", "--resume")), 0) << errors();
  EXPECT_TRUE(model("killed") == model("whole"));
}

TEST_F(RanksCommand, MoreRanksThanSequencesAreRefusedOnceWithBothNumbers) {
  std::ofstream(directory_ + "/short.txt") << "A few words to learn from are not many.\n";
  const std::string few = "--set sequence_len=32 --set datasets=[{path:\\ " + directory_ + "/short.txt}]";
  EXPECT_NE(train(3, 1, "x", few), 0);
  const std::size_t first = errors().find("fewer than the 3 processes");
  ASSERT_NE(first, std::string::npos) << errors();
  EXPECT_EQ(errors().find("fewer than the 3 processes", first + 1), std::string::npos) << errors();
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/x/metrics.jsonl"));
}

// Which start no MPI: each process would take itself for the only one.
TEST_F(RanksCommand, VariablesOfTorchrunAreRefusedWithTheCommandThatStartsRanks) {
  EXPECT_NE(alone("RANK=1 WORLD_SIZE=4"), 0);
  EXPECT_NE(errors().find("WORLD_SIZE: is 4"), std::string::npos) << errors();
  EXPECT_NE(errors().find("mpirun -n 4 ingot"), std::string::npos) << errors();
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/x/metrics.jsonl"));
}

// So are those of MPICH's mpiexec, and of srun without PMIx.
TEST_F(RanksCommand, LaunchersThatAreNotOpenMpisAreRefusedWithTheCommandThatStartsRanks) {
  for (const auto& [variables, named] :
       {std::pair{"PMI_RANK=2 PMI_SIZE=5", "PMI_SIZE: is 5"},
        {"PMI_RANK=0 PMI_SIZE=5 SLURM_PROCID=0 SLURM_STEP_ID=3 SLURM_STEP_NUM_TASKS=5", "PMI_SIZE: is 5"},
        {"SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=5",
         "SLURM_STEP_NUM_TASKS: is 5"}}) {
    EXPECT_NE(alone(variables), 0) << variables;
    EXPECT_NE(errors().find(named), std::string::npos) << errors();
    EXPECT_NE(errors().find("mpirun -n 5 ingot"), std::string::npos) << errors();
    EXPECT_NE(errors().find("srun --mpi=pmix -n 5 ingot"), std::string::npos) << errors();
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/x/metrics.jsonl"));
  }
}

// A launcher's only process, a script of sbatch (in no step, or in the one that Slurm keeps for scripts), a
// shell of salloc, a lone process of mpirun in a step, the program of a trial.
TEST_F(RanksCommand, AProcessThatALauncherStartedAloneTrainsAlone) {
  for (const char* variables :
       {"PMI_RANK=0 PMI_SIZE=1", "SLURM_PROCID=0 SLURM_STEP_ID=4 SLURM_NTASKS=1 SLURM_STEP_NUM_TASKS=1",
        "SLURM_PROCID=0 SLURM_NTASKS=8", "SLURM_PROCID=0 SLURM_STEP_ID=4294967291 SLURM_STEP_NUM_TASKS=8",
        "SLURM_NTASKS=8",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 SLURM_PROCID=2 SLURM_STEP_ID=4 SLURM_STEP_NUM_TASKS=8",
        "INGOT_TRIAL=7 SLURM_PROCID=2 SLURM_STEP_ID=4 SLURM_STEP_NUM_TASKS=8"}) {
    EXPECT_EQ(alone(variables), 0) << variables << "\n" << errors();
    EXPECT_TRUE(std::filesystem::exists(directory_ + "/x/metrics.jsonl")) << variables;
    std::filesystem::remove_all(directory_ + "/x");
  }
}

TEST_F(RanksCommand, DevicesTellsWhatMovesTheBytesOfEachRank) {
  ASSERT_EQ(launch("-n 2 env INGOT_FORCE_CPU=1 " INGOT_BINARY " devices --ranks --json"), 0) << errors();
  const std::string text = read_file(directory_ + "/out");
  EXPECT_NE(text.find("\"rank\": 1"), std::string::npos) << text;
  EXPECT_NE(text.find("\"host_memory\": \"Open MPI v"), std::string::npos) << text;
}

TEST_F(RanksCommand, DistCheckDoesEveryOperation) {
  ASSERT_EQ(launch("-n 3 " INGOT_BINARY " dist check --device cpu --size 3KiB --json"), 0) << errors();
  const std::string text = read_file(directory_ + "/out");
  EXPECT_EQ(text.find("\"right\": false"), std::string::npos) << text;
  for (const char* operation : {"all-reduce", "all-gather", "reduce-scatter in the order of ranks",
                                "all-to-all", "broadcast", "send from the first to the last"})
    EXPECT_NE(text.find(fmt::format("\"operation\": \"{}\"", operation)), std::string::npos) << text;
}

TEST_F(RanksCommand, DistCheckOfOneProcessSaysHowToStartSeveral) {
  EXPECT_NE(launch("-n 1 " INGOT_BINARY " dist check"), 0);
  EXPECT_NE(errors().find("mpirun -n 2 ingot dist check"), std::string::npos) << errors();
}

}  // namespace
}  // namespace ingot::testing
