#include "ingot/cli/completion_script.h"

#include <functional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/shell.h"
#include "ingot/cli/help_page.h"

namespace ingot::cli {
namespace {

/// Calls `visit` with every command and its path without the program: "", "train", "forecast fit".
void visit_commands(const CLI::App& app, const std::string& path,
                    const std::function<void(const CLI::App&, const std::string&)>& visit) {
  visit(app, path);
  for (const CLI::App* command : app.get_subcommands(nullptr))
    visit_commands(*command, (path.empty() ? "" : path + " ") + command->get_name(), visit);
}

std::vector<std::string> option_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

/// Two functions for bash and zsh: what may come next, and what an option takes (1 where it takes nothing).
std::string shell_tables(const CLI::App& app) {
  std::string options, values;
  visit_commands(app, "", [&](const CLI::App& at, const std::string& path) {
    std::string words;
    for (const CLI::App* command : at.get_subcommands(nullptr)) words += command->get_name() + " ";
    for (const CLI::Option* option : at.get_options()) {
      if (option->get_positional()) {
        words += fmt::format("{} ", fmt::join(completions_of(*option), " "));
        continue;
      }
      const std::vector<std::string> names = option_names(*option);
      words += names.front() + " ";
      if (is_flag(*option)) continue;
      std::string patterns;
      for (const std::string& name : names)
        patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : "|", path, name);
      values += fmt::format("    {}) echo '{}' ;;\n", patterns, fmt::join(completions_of(*option), " "));
    }
    options += fmt::format("    '{}') echo '{}' ;;\n", path, words);
  });
  return fmt::format("_ingot_next() {{\n  case \"$1\" in\n{}  esac\n}}\n", options) +
         fmt::format("_ingot_values() {{\n  case \"$1\" in\n{}    *) return 1 ;;\n  esac\n}}\n", values);
}

// Words before the cursor that do not start with '-' name the command, those at their end perhaps a file or a
// value. Behind "help" they name one as if it were not there. "--option=value" is three words for bash, and
// one for zsh.
constexpr const char* kBash = R"sh(_ingot() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" path='' word words=''
  [ "$current" = '=' ] && current=''
  [ "$previous" = '=' ] && previous="${COMP_WORDS[COMP_CWORD-2]}"
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) ;; *) path="${path:+$path }$word" ;; esac
  done
  case "$path" in help|'help '*) path="${path#help}"; path="${path# }" ;; esac
  while :; do
    words="$(_ingot_values "$path $previous")" && break
    words="$(_ingot_next "$path")"
    [ -n "$words" ] && break
    case "$path" in *' '*) path="${path% *}" ;; *) break ;; esac
  done
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _ingot ingot
)sh";

constexpr const char* kZsh = R"sh(_ingot() {
  local place='' word found previous="${words[CURRENT-1]}"
  if [[ $PREFIX == --*=* ]]; then
    previous="${PREFIX%%=*}"
    compset -P '*='
  fi
  for word in "${(@)words[2,CURRENT-1]}"; do
    [[ $word == -* ]] || place="${place:+$place }$word"
  done
  [[ $place == help || $place == 'help '* ]] && place="${${place#help}# }"
  while true; do
    if found="$(_ingot_values "$place $previous")"; then
      if [[ -n $found ]]; then compadd -- ${=found}; else _files; fi
      return
    fi
    found="$(_ingot_next "$place")"
    [[ -n $found || $place != *' '* ]] && break
    place="${place% *}"
  done
  compadd -- ${=found}
  local -a named
  named=(${${=found}:#-*})
  (( $#named )) || [[ $PREFIX == -* ]] || _files
}
if [[ $funcstack[1] == _ingot ]]; then _ingot "$@"; else compdef _ingot ingot; fi
)sh";

constexpr const char* kFish = R"sh(function __ingot_path
  set -l path
  for word in (commandline -opc)[2..-1]
    string match -q -- '-*' $word; or set -a path $word
  end
  test "$path[1]" = help; and set -e path[1]
  echo "$path"
end
function __ingot_exactly
  test (__ingot_path) = "$argv"
end
function __ingot_at
  set -l path (__ingot_path)
  test "$path" = "$argv"; or string match -q -- "$argv *" "$path"
end
)sh";

std::string fish_script(const CLI::App& app) {
  std::string out = kFish;
  visit_commands(app, "", [&out](const CLI::App& at, const std::string& path) {
    const std::string here =
        fmt::format("complete -c ingot -n {} ", shell_quoted(fmt::format("__ingot_exactly '{}'", path)));
    for (const CLI::App* command : at.get_subcommands(nullptr)) {
      out += here +
             fmt::format("-f -a {} -d {}\n", command->get_name(), shell_quoted(command->get_description()));
    }
    const bool group = !at.get_subcommands(nullptr).empty();
    const std::string below =
        fmt::format("complete -c ingot -n {} ", shell_quoted(fmt::format("__ingot_at '{}'", path)));
    for (const CLI::Option* option : at.get_options()) {
      const std::string choices = fmt::format("{}", fmt::join(completions_of(*option), " "));
      if (option->get_positional()) {
        if (!choices.empty()) out += below + fmt::format("-f -a {}\n", shell_quoted(choices));
        continue;
      }
      std::string line = group ? here : below;
      for (const std::string& name : option->get_lnames()) line += "-l " + name + " ";
      for (const std::string& name : option->get_snames()) line += "-s " + name + " ";
      if (!is_flag(*option)) line += choices.empty() ? "-r " : "-x -a " + shell_quoted(choices) + " ";
      out += line + "-d " + shell_quoted(option->get_description()) + "\n";
    }
  });
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, std::string_view shell) {
  if (shell == "fish") return fish_script(app);
  return shell == "zsh" ? "#compdef ingot\n" + shell_tables(app) + kZsh : shell_tables(app) + kBash;
}

}  // namespace ingot::cli
