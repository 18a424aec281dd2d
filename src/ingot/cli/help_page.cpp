#include "ingot/cli/help_page.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/progress.h"
#include "ingot/base/version.h"

namespace ingot::cli {

std::string wrap(std::string_view text, int columns, int indent) {
  std::string out, line;
  const auto end_line = [&] {
    out += (out.empty() ? "" : "\n" + std::string(static_cast<std::size_t>(indent), ' ')) + line;
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    const bool fits = display_width(line) + 1 + display_width(word) <= columns - indent;
    if (!line.empty() && !word.empty() && !fits) end_line();
    if (!word.empty()) line += (line.empty() ? "" : " ") + std::string(word);
    if (end < text.size() && text[end] == '\n') end_line();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!line.empty()) end_line();
  return out;
}

std::string wrap_on_terminal(std::string_view text, int indent, int fd) {
  if (!is_terminal(fd)) return std::string(text);
  constexpr int kNarrow = 20;  // narrower text is harder to read than lines that the terminal breaks
  return wrap(text, std::max(terminal_columns(fd), indent + kNarrow), indent);
}

namespace {

struct HelpRow {
  std::string left, right;
};
using HelpRows = std::vector<HelpRow>;

/// Two columns; on a narrow terminal, and beside a long left side, the right one stands below.
std::string table(const HelpRows& rows, int columns) {
  constexpr int kWidestLeft = 34, kNarrow = 70, kBelow = 8;
  int left = 0;
  for (const HelpRow& row : rows) left = std::max(left, std::min(kWidestLeft, display_width(row.left) + 4));
  if (columns < kNarrow) left = kBelow;
  std::string out;
  for (const HelpRow& row : rows) {
    std::string line = "  " + row.left;
    const int used = display_width(line);
    const bool below = used + 2 > left;
    if (!row.right.empty()) {
      if (below) line += '\n';
      line.append(static_cast<std::size_t>(below ? left : left - used), ' ');
    }
    out += line + wrap(row.right, columns, left) + "\n";
  }
  return out;
}

HelpRows rows_of(const CLI::App& app, bool positionals) {
  HelpRows rows;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() == positionals) rows.push_back({signature(*option), explanation(*option)});
  }
  return rows;
}

HelpRows subcommands(const CLI::App& app) {
  HelpRows rows;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    rows.push_back({command->get_name(), command->get_description()});
  }
  return rows;
}

std::string usage(const CLI::App& app) {
  std::string text = full_name(app);
  if (!rows_of(app, false).empty()) text += " [OPTIONS]";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    text += option->get_required() ? " " + signature(*option) : " [" + signature(*option) + "]";
  }
  if (!app.get_subcommands(nullptr).empty()) text += " COMMAND";
  return text;
}

/// Examples as Command::example puts them down: a command, and below it what it does.
std::string examples(const CLI::App& app, int columns) {
  std::string out, footer = app.get_footer();
  for (std::size_t start = 0; start < footer.size();) {
    const std::size_t end = std::min(footer.find('\n', start), footer.size());
    const std::string line = footer.substr(start, end - start);
    const bool what = line.starts_with("      ");
    out += (what ? "      " + wrap(line, columns, 6) : line) + "\n";
    start = end + 1;
  }
  return out;
}

std::string section(const std::string& title, const HelpRows& rows, int columns) {
  return rows.empty() ? "" : "\n" + title + ":\n" + table(rows, columns);
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  std::ranges::replace(text, '-', '_');
  return text;
}

/// What stands for the value of an option: N, X, or its own last word, as in "--cache-dir DIR".
std::string placeholder(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::string kind = type.substr(0, type.find(':'));
  if (kind == "INT" || kind == "UINT") return "N";
  if (kind == "FLOAT") return "X";
  if (kind != "TEXT" && !kind.empty()) return kind;  // as Command::placeholder gave it
  const std::string name = option.get_lnames().empty() ? option.get_name() : option.get_lnames().front();
  return upper(name.substr(name.rfind('-') + 1));
}

std::string roff(std::string_view text) {
  std::string out;
  bool line_starts = true;
  for (const char c : text) {
    if (line_starts && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    line_starts = c == '\n';
  }
  return out;
}

void add_man_section(const CLI::App& app, std::string& out) {
  if (app.get_parent() != nullptr) {
    out += fmt::format(".SS {}\n{}\n.PP\n.B {}\n", roff(full_name(app)), roff(app.get_description()),
                       roff(usage(app)));
  }
  for (const bool positionals : {true, false}) {
    for (const HelpRow& row : rows_of(app, positionals)) {
      if (row.left.starts_with("-h,")) continue;
      out += fmt::format(".TP\n.B {}\n{}\n", roff(row.left), roff(row.right));
    }
  }
  if (const std::string shown = examples(app, 1000); !shown.empty())
    out += fmt::format(".PP\n.nf\n{}.fi\n", roff(shown));
  for (const CLI::App* command : app.get_subcommands(nullptr)) add_man_section(*command, out);
}

}  // namespace

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : full_name(*app.get_parent()) + " " + app.get_name();
}

namespace {

// The list behind `mark` in a type's name, "TEXT:{bash,zsh,fish}".
std::vector<std::string> listed(const std::string& type, std::string_view mark) {
  const std::size_t open = type.find(mark);
  std::vector<std::string> choices;
  if (open == std::string::npos || type.back() != '}') return choices;
  for (std::size_t start = open + mark.size(); start < type.size();) {
    const std::size_t end = std::min(type.find(',', start), type.size() - 1);
    choices.push_back(type.substr(start, end - start));
    start = end + 1;
  }
  return choices;
}

}  // namespace

// As CLI::IsMember describes itself.
std::vector<std::string> choices_of(const CLI::Option& option) {
  return listed(option.get_type_name(), ":{");
}

std::vector<std::string> completions_of(const CLI::Option& option) {
  std::vector<std::string> words = choices_of(option);
  return words.empty() ? listed(option.get_type_name(), ":suggests{") : words;
}

bool is_flag(const CLI::Option& option) {
  return option.get_type_size() == 0 || option.get_expected_max() == 0;
}

std::string signature(const CLI::Option& option) {
  if (option.get_positional()) {
    const bool several = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
    return upper(option.get_name()) + (several ? "..." : "");
  }
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (is_flag(option)) return text;
  text += " " + placeholder(option);
  return text;
}

std::string explanation(const CLI::Option& option) {
  std::string text = option.get_description();
  std::vector<std::string> choices = choices_of(option);
  // Those that the sentence names already are not listed again.
  std::erase_if(choices, [&](const std::string& choice) { return text.find(choice) != std::string::npos; });
  if (!choices.empty()) text += fmt::format(" ({})", fmt::join(choices_of(option), ", "));
  if (!is_flag(option) && !option.get_default_str().empty())
    text += fmt::format(" [default: {}]", option.get_default_str());
  return text;
}

std::string help_page(const CLI::App& app, int columns) {
  columns = std::max(40, columns);
  std::string out =
      wrap(app.get_description(), columns, 0) + "\n\nUsage: " + wrap(usage(app), columns, 7) + "\n";
  out += section("Arguments", rows_of(app, true), columns);
  out += section("Options", rows_of(app, false), columns);
  out += section("Subcommands", subcommands(app), columns);
  const std::string shown = examples(app, columns);
  return shown.empty() ? out : out + "\n" + shown;
}

std::string man_page(const CLI::App& app) {
  const std::string name = full_name(app);
  std::string out = fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n", upper(name), name, version());
  out += fmt::format(".SH NAME\n{} \\- train, run and serve models natively\n", name);
  out += fmt::format(".SH SYNOPSIS\n.B {}\n.SH DESCRIPTION\n{}\n", roff(usage(app)),
                     roff(app.get_description()));
  out += ".SH OPTIONS AND COMMANDS\n";
  add_man_section(app, out);
  return out;
}

}  // namespace ingot::cli
