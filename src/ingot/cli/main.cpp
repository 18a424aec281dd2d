#include <cstdio>

#include "ingot_commit.h"

#include "ingot/base/error.h"
#include "ingot/base/printable.h"
#include "ingot/base/version.h"
#include "ingot/cli/about.h"
#include "ingot/cli/thread_waiting.h"
#include "ingot/plugin/load.h"
#include "ingot/runtime/initialize.h"

int main(int argc, char** argv) {
  ingot::cli::bound_thread_waiting(argv);
  try {
    ingot::initialize();
    ingot::load_plugins_from_env();
  } catch (const ingot::Error& error) {  // INGOT_BACKEND or INGOT_PLUGINS may ask for what is not there
    std::fprintf(stderr, "error: %s\n", printable_message(error).c_str());
    return 2;
  }
  ingot::set_invocation({.commit = INGOT_COMMIT, .command = {argv, argv + argc}});
  return ingot::cli::run_command_line(argc, argv, ingot::cli::ingot_program(INGOT_COMMIT));
}
