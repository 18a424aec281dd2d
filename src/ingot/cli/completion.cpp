#include <fmt/format.h>

#include "ingot/cli/verbs.h"

namespace ingot::cli {

void add_completion(Command& root) {
  auto shell = std::make_shared<std::string>("bash");
  Command verb = root.verb("completion", "Print a script that completes commands and options in your shell");
  verb.option("shell", *shell, "bash, zsh or fish").one_of({"bash", "zsh", "fish"});
  verb.example("source <(ingot completion bash)",
               "completion in this shell; put it into ~/.bashrc to keep it");
  verb.run([shell] {
    fmt::print("{}", completion_script(*shell, add_all_verbs));
    return 0;
  });
}

}  // namespace ingot::cli
