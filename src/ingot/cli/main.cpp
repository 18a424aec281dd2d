#include "ingot/cli/verbs.h"
#include "ingot/runtime/initialize.h"

int main(int argc, char** argv) {
  ingot::initialize();
  return ingot::cli::run_command_line(
      argc, argv, "ingot",
      "Ingot trains, runs and serves models natively, on CPUs and NVIDIA GPUs. Start with: ingot demo",
      ingot::cli::add_all_verbs);
}
