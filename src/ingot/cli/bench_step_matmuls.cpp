#include <memory>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/benchmark/model_shapes.h"
#include "ingot/benchmark/step_matmuls.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/bench.h"

namespace ingot::cli {

void add_bench_step_matmuls(Command& bench) {
  auto o = std::make_shared<benchmark::StepMatmulsOptions>();
  auto json = std::make_shared<bool>(false);
  Command command =
      bench.subcommand("step-matmuls", "Time a training step's matmuls alone, back to back: its ceiling");
  command.option("--shape", o->shape, "gpt2 (124M parameters), demo, or those of Llama 3.2 1B and Qwen3 8B")
      .one_of(benchmark::shape_names());
  add_device_option(command, o->device);
  command.option("--batch", o->batch, "Sequences in a batch");
  command.option("--sequence", o->sequence, "Tokens in a sequence");
  command.option("--dtype", o->dtype, "What weights and activations are").one_of({"f32", "bf16"});
  command.option("--seconds", o->seconds, "How long to repeat them: a GPU at its power limit slows down");
  command.flag("--json", *json, "Print JSON");
  command.example(
      "ingot bench step-matmuls --device cuda --dtype bf16 --shape llama-1b --batch 2 --sequence 4096",
      "what a step of `ingot bench train` with these options cannot exceed for long");
  command.example("ingot bench step-matmuls --shape demo --seconds 1",
                  "which matmuls of a small model are slow here");
  command.run([o, json] {
    check_positive({{"--batch", o->batch}, {"--sequence", o->sequence}});
    INGOT_CHECK(o->seconds > 0 && o->seconds <= 3600,
                InvalidConfig("--seconds", fmt::format("must be in (0, 3600], got {}", o->seconds)));
    return show(benchmark::time_step_matmuls(*o), *json);
  });
}

}  // namespace ingot::cli
