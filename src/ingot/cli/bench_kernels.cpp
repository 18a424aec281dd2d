#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "ingot/benchmark/kernels.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/bench.h"

namespace ingot::cli {

void add_bench_kernels(Command& bench) {
  auto o = std::make_shared<benchmark::KernelsOptions>();
  auto json = std::make_shared<bool>(false);
  Command command = bench.subcommand("kernels", "Time single kernels against what copies and matmuls reach");
  add_device_option(command, o->device);
  command.option("--dtype", o->dtype, "What the operands are").one_of({"f32", "bf16", "f16"});
  command.option("--kernel", o->kernels, "Kernels to time, several; none: all")
      .one_of(benchmark::kernel_case_names());
  command.option("--megabytes", o->megabytes, "Size of a kernel's main operand; more than caches hold");
  command.option("--sequence", o->sequence, "Tokens that attention spans (16 heads of 128, causal)");
  command.option("--runs", o->runs, "Runs to take the median of");
  command.flag("--json", *json, "Print JSON");
  command.example("ingot bench kernels --device cuda --dtype bf16",
                  "a GPU's, whose bound is memory for most");
  command.example("ingot bench kernels --kernel attention --kernel attention_backward --sequence 1024",
                  "some of them");
  command.run([o, json] {
    check_positive({{"--megabytes", o->megabytes}, {"--sequence", o->sequence}, {"--runs", o->runs}});
    if (*json) return show(benchmark::time_kernels(*o), true);
    const auto print = [](const std::string& line) {
      fmt::print("{}", line);
      std::fflush(stdout);
    };
    return benchmark::time_kernels(*o, print).failed ? 1 : 0;
  });
}

}  // namespace ingot::cli
