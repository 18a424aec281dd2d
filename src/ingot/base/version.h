#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot {

/// The version of this build: "0.1.0". Headers and library of two versions do not go together.
std::string_view version();
/// The compiler that made it: "g++ 12.2.0".
std::string_view compiler();

/// What main() knows of its program, for the records of runs.
struct Invocation {
  std::string commit;                ///< "1a2b3c4d5e6f", with "+changes" behind; empty where it is not known
  std::vector<std::string> command;  ///< the words that started it
};
/// Told once, before anything else runs. Secrets in the command are replaced by "***".
void set_invocation(Invocation invocation);
/// Empty where nobody has told: a library in another program.
const Invocation& invocation();

}  // namespace ingot
