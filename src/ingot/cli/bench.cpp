#include "ingot/cli/bench.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/printable.h"
#include "ingot/cli/commands.h"

namespace ingot::cli {

void add_torch_options(Command& command, benchmark::TorchOptions& options) {
  command
      .option("--against", options.against,
              "Take turns with PyTorch: torch (eager) or torch.compile; may be given twice")
      .one_of({"torch", "torch.compile"});
  command.option("--python", options.python, "The Python that has torch (and transformers)");
}

void check_positive(std::initializer_list<std::pair<const char*, std::int64_t>> options) {
  for (const auto& [option, value] : options)
    INGOT_CHECK(value > 0, InvalidConfig(option, fmt::format("must be at least 1, got {}", value)));
}

int show(const benchmark::Report& report, bool json) {
  fmt::print("{}", json ? printable_json(report.json) + "\n" : report.text);
  return report.failed ? 1 : 0;
}

void add_bench(Command& root) {
  Command bench = root.subcommand("bench", "Time training and inference against what the machine allows");
  bench.example("ingot bench decode model.gguf", "tokens/s, beside what reading the weights allows");
  add_bench_training(bench);
  add_bench_policy(bench);
  add_bench_selfplay(bench);
  add_bench_inference(bench);
  add_bench_matmul(bench);
  add_bench_kernels(bench);
  add_bench_step_matmuls(bench);
  add_bench_serve(bench);
}

}  // namespace ingot::cli
