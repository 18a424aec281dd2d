#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ingot::testing {

struct Outcome {
  int exit_code = -1;  ///< 128 + the signal's number when one ended it
  std::string output;  ///< stdout, or everything that a terminal would have shown
  std::string errors;  ///< stderr; empty under a terminal
};

/// Runs `ingot` with these arguments; `environment` adds NAME=value settings.
Outcome run_ingot(const std::vector<std::string>& arguments,
                  const std::vector<std::string>& environment = {});

/// The same with `input` on its stdin.
Outcome run_ingot_with_input(const std::vector<std::string>& arguments, const std::string& input);

/// Called after each piece of output with all of it, and, with child 0, once the program is gone; `terminal`
/// is the side of the one who looks.
using TerminalWatch = std::function<void(const std::string& output, pid_t child, int terminal)>;

/// The same on a terminal of 100 columns of its own.
Outcome run_ingot_on_terminal(const std::vector<std::string>& arguments, const TerminalWatch& watch = {});

}  // namespace ingot::testing
