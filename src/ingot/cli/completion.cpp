#include <fmt/format.h>

#include "ingot/cli/about.h"
#include "ingot/cli/commands.h"

namespace ingot::cli {

void add_completion(Command& root) {
  auto kind = std::make_shared<std::string>("bash");
  Command command =
      root.subcommand("completion", "Print a script that completes commands and options in your shell");
  command.option("shell", *kind, "bash, zsh or fish; man: the page for man(1)")
      .one_of({"bash", "zsh", "fish", "man"});
  command.example("source <(ingot completion bash)",
                  "completion in this shell; put it into ~/.bashrc to keep it");
  command.example("ingot completion man | man -l -", "all commands and options on one page");
  command.run([kind] {
    fmt::print("{}", documentation(ingot_program(), *kind));
    return 0;
  });
}

}  // namespace ingot::cli
