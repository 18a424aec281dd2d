#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/benchmark/model_shapes.h"
#include "ingot/benchmark/training.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/bench.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot::cli {
namespace {

struct TrainingFlags {
  benchmark::TrainingOptions bench;
  std::optional<std::string> recompute;
  bool json = false;
};

// What `train` and `finetune` share.
void add_common_options(Command& command, const std::shared_ptr<TrainingFlags>& flags,
                        const std::string& torch) {
  benchmark::TrainingOptions& o = flags->bench;
  add_device_option(command, o.device);
  command.option("--batch", o.batches.batch, "Sequences in a batch");
  command.option("--sequence", o.batches.sequence, "Tokens in a sequence");
  command.option("--accumulate", o.batches.count, "Batches whose gradients are added up for one step");
  command
      .option("--optimizer", o.optimizer,
              "adamw, or adamw_8bit with moments in 8 bits (" + torch + ": adamw)")
      .one_of({"adamw", "adamw_8bit"});
  command.option("--runs", o.runs, "Steps to take the median of");
  add_torch_options(command, o.torch);
  command.flag("--graphs", o.graphs, "Capture the step as a CUDA graph, as cuda_graphs does in a training");
  command
      .option("--recompute", flags->recompute,
              "What the backward pass recomputes instead of keeping it: selective (norms, activations), or "
              "full (whole layers; " +
                  torch + " does so, too)")
      .one_of(recompute_words())
      .alone("full");
  command.flag("--breakdown", o.breakdown, "One more step that shows where its time goes, kernel by kernel");
  command.flag("--json", flags->json, "Print JSON");
}

int run(const TrainingFlags& flags) {
  benchmark::TrainingOptions o = flags.bench;
  check_positive({{"--batch", o.batches.batch},
                  {"--sequence", o.batches.sequence},
                  {"--accumulate", o.batches.count},
                  {"--rank", o.lora.has_value() ? o.lora->rank : 1},
                  {"--runs", o.runs}});
  INGOT_CHECK(!o.graphs || !o.breakdown,
              InvalidConfig("--breakdown",
                            "kernels of a captured step are not launched one by one; leave --graphs out"));
  if (flags.recompute.has_value()) o.recompute = parse_recompute(*flags.recompute, "--recompute");
  return show(benchmark::time_training(o), flags.json);
}

void add_bench_train(Command& bench) {
  auto flags = std::make_shared<TrainingFlags>();
  benchmark::TrainingOptions& o = flags->bench;
  Command command =
      bench.subcommand("train", "Time whole training steps, against what matmuls alone reach here");
  command.option("--shape", o.shape, "gpt2 (124M parameters), demo, or a model's of that name")
      .one_of(benchmark::shape_names());
  command.option("--dtype", o.dtype, "What weights and activations are: f32 or bf16 (PyTorch: autocast)")
      .one_of({"f32", "bf16"});
  add_common_options(command, flags, "PyTorch");
  command
      .option("--torch-weights", o.torch_weights,
              "What PyTorch keeps weights, gradients and moments in: f32, or bf16 and no master weights, a "
              "half of the memory")
      .one_of({"f32", "bf16"});
  command.flag(
      "--apart", o.apart,
      "PyTorch behind our steps, in the memory that they leave, and not in turn: for models that fit once");
  command.example("ingot bench train --batch 1 --sequence 1024", "a long sequence");
  command.example("ingot bench train --against torch --against torch.compile --python ~/venv/bin/python",
                  "both programs and the ratio of their steps, in one run");
  command.example("ingot bench train --device cuda --dtype bf16 --shape llama-1b --batch 2 --sequence 4096",
                  "a GPU");
  command.example(
      "ingot bench train --device cuda --dtype bf16 --shape qwen3-8b --sequence 4096 --batch 1 --accumulate "
      "8 "
      "--against torch --torch-weights bf16 --apart",
      "a model that fills the GPU");
  command.example("ingot bench train --device cuda --shape demo --graphs",
                  "a model whose steps are all launches");
  command.run([flags] { return run(*flags); });
}

void add_bench_finetune(Command& bench) {
  auto flags = std::make_shared<TrainingFlags>();
  benchmark::TrainingOptions& o = flags->bench;
  o = {.shape = "qwen3-0.6b",
       .dtype = "bf16",
       .batches = {.batch = 2, .sequence = 2048, .count = 4},
       .runs = 5,
       .lora = benchmark::LoraSetup{}};
  Command command =
      bench.subcommand("finetune", "Time steps of LoRA and QLoRA, against what matmuls alone reach here");
  command.option("--shape", o.shape, "The base: a model of random weights with that one's shape")
      .one_of(benchmark::shape_names());
  std::vector<std::string> bases = quant::quantized_formats();
  bases.insert(bases.begin(), {"f32", "bf16"});
  command
      .option("--base", o.lora->base,
              "What the base's matrices are: bf16, or quantized (QLoRA): nf4, q4_k, ...")
      .one_of(bases);
  command.option("--rank", o.lora->rank, "Of the adapters, which are on all linear layers");
  command.option("--dtype", o.dtype, "What activations are: f32 or bf16").one_of({"f32", "bf16"});
  add_common_options(command, flags, "PEFT");
  command.example("ingot bench finetune --batch 1 --sequence 512 --accumulate 1 --base nf4", "QLoRA");
  command.example(
      "ingot bench finetune --batch 1 --sequence 512 --accumulate 1 --against torch --python "
      "~/venv/bin/python",
      "in turn with PEFT on PyTorch");
  command.example(
      "ingot bench finetune --batch 1 --sequence 512 --accumulate 1 --base nf4 --against torch --python "
      "~/venv/bin/python",
      "in turn with PEFT on bitsandbytes' NF4, as with any quantized base");
  command.example("ingot bench finetune --device cuda --shape qwen3-8b", "a GPU");
  command.run([flags] {
    flags->bench.torch_weights = flags->bench.lora->base == "f32" ? "f32" : "bf16";
    return run(*flags);
  });
}

}  // namespace

void add_bench_training(Command& bench) {
  add_bench_train(bench);
  add_bench_finetune(bench);
}

}  // namespace ingot::cli
