#include <fmt/format.h>

#include "ingot/cli/about.h"
#include "ingot/cli/verbs.h"

namespace ingot::cli {

void add_completion(Command& root) {
  auto kind = std::make_shared<std::string>("bash");
  Command verb = root.verb("completion", "Print a script that completes commands and options in your shell");
  verb.option("shell", *kind, "bash, zsh or fish; man: the page for man(1)")
      .one_of({"bash", "zsh", "fish", "man"});
  verb.example("source <(ingot completion bash)",
               "completion in this shell; put it into ~/.bashrc to keep it");
  verb.example("ingot completion man | man -l -", "all commands and options on one page");
  verb.run([kind] {
    fmt::print("{}", documentation(ingot_program(), *kind));
    return 0;
  });
}

}  // namespace ingot::cli
