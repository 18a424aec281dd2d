#include "ingot/cli/command.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/suggest.h"
#include "ingot/base/trace.h"
#include "ingot/base/version.h"
#include "ingot/cli/completion_script.h"
#include "ingot/cli/help_page.h"
#include "ingot/cli/interrupt.h"
#include "ingot/plugin/load.h"

namespace ingot::cli {
namespace {

template <class T>
void* add_option(CLI::App* app, const std::string& names, T& value, const std::string& help) {
  CLI::Option* option = app->add_option(names, value, help);
  option->capture_default_str();
  return option;
}

// CLI11's own way with an optional reads an empty word as none.
template <class T>
void* add_optional(CLI::App* app, const std::string& names, std::optional<T>& value,
                   const std::string& help) {
  return app
      ->add_option_function<T>(
          names, [&value](const T& given) { value = given; }, help)
      ->type_name(CLI::detail::type_name<T>());
}

// What the user may have meant by a word that no command or option of `app` has.
std::string suggestion(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands(nullptr)) known.push_back(command->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  return did_you_mean(word, known);
}

const CLI::App& deepest(const CLI::App& app) {
  const auto used = app.get_subcommands();
  return used.empty() ? app : deepest(*used.front());
}

/// Names and values of files stand in messages, and may be megabytes.
std::string cut_message(const std::string& text) {
  constexpr std::size_t kMost = 8192;
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole characters
  return fmt::format("{}... ({} bytes more)", text.substr(0, end), text.size() - end);
}

// One error: text for people, which a terminal may see, or JSON for a script that asked for it.
void print_error(std::string_view kind, const std::string& message, const std::string& text, bool json) {
  std::string line = cut_message(text);
  if (json)
    line = printable_json(
        dump_json(nlohmann::ordered_json{{"error", {{"kind", kind}, {"message", cut_message(message)}}}}));
  line += '\n';
  // Not fmt::print, which throws where nothing can be written: the exit code still tells of the error.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int usage_error(const CLI::App& app, const CLI::ParseError& error, bool json) {
  const CLI::App& at = deepest(app);
  const std::string path = full_name(at);
  std::string message = error.what();
  const auto extras = at.remaining();
  if (!extras.empty() && (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                          dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)) {
    message = fmt::format("'{}' is not known{}", extras.front(), suggestion(at, extras.front()));
  }
  std::vector<std::string> commands;
  for (const CLI::App* command : at.get_subcommands(nullptr)) commands.push_back(command->get_name());
  if (extras.empty() && !commands.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    message = fmt::format("needs one of {}", fmt::join(commands, ", "));
  // CLI11's words: "--x: At Most 1 required but received 2".
  if (const std::size_t twice = message.find(": At Most 1 required"); twice != std::string::npos) {
    message = fmt::format("{} is given more than once", message.substr(0, twice));
  }
  message = fmt::format("{}: {}", path, message);
  print_error("usage", message, fmt::format("{}\nSee '{} --help'.", printable(message), path), json);
  return 2;
}

std::string message_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return "this needs more memory than there is, or than the process may have";
  }
  if (const auto* json = dynamic_cast<const nlohmann::json::exception*>(&error))
    return "a JSON file does not hold what it should: " + json_problem(*json);
  if (dynamic_cast<const std::logic_error*>(&error) != nullptr) return "a file does not hold what it should";
  return error.what();
}

/// What a terminal may see of it.
std::string shown_message(const std::exception& error) {
  return dynamic_cast<const Error*>(&error) != nullptr ? printable_message(error)
                                                       : printable(message_of(error));
}

/// Who stopped reading (`| head`) needs no message; the exit code is that of programs which the signal ends.
constexpr int kReaderLeft = 128 + SIGPIPE;

/// The exit code of a command that ended with `code`, once all that it printed has been taken: a full disk is
/// an error even where everything else went well.
int after_output(int code, bool json) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code != 0) return code;
  if (errno == EPIPE) return kReaderLeft;
  const std::string reason = errno == 0 ? "it could not be written" : std::strerror(errno);
  return report_error(IoError("standard output", reason + "; what was printed is not complete"), json);
}

void print_help(const CLI::App& app) { fmt::print("{}", help_page(app, terminal_columns(STDOUT_FILENO))); }

int help_on(const CLI::App& program, const std::vector<std::string>& path) {
  const CLI::App* at = &program;
  for (const std::string& word : path) {
    const auto commands =
        at->get_subcommands([&](const CLI::App* command) { return command->get_name() == word; });
    INGOT_CHECK(!commands.empty(),
                InvalidConfig(full_name(*at) + " " + word, "is not a command" + suggestion(*at, word)));
    at = commands.front();
  }
  print_help(*at);
  return 0;
}

void add_help(Command& root, const CLI::App* program) {
  auto path = std::make_shared<std::vector<std::string>>();
  Command help = root.subcommand("help", "Show the help of a command");
  help.option("command", *path, "The command, as in: ingot help forecast fit");
  help.example("ingot help forecast fit", "the same as ingot forecast fit --help");
  help.run([program, path] { return help_on(*program, *path); });
}

std::unique_ptr<CLI::App> make_app(const Program& program) {
  auto app = std::make_unique<CLI::App>(program.description, program.name);
  app->set_help_flag("-h,--help", "Show this help");
  app->set_version_flag("--version", program.version, "Show the version, the backends and the compiler");
  Command root(app.get());
  program.add_commands(root);
  add_help(root, app.get());
  return app;
}

}  // namespace

Command Command::subcommand(const std::string& name, const std::string& summary) {
  app_->require_subcommand(1);
  CLI::App* command = app_->add_subcommand(name, summary);
  command->footer("");  // CLI11 hands down the parent's, which holds its examples
  return Command(command);
}

Command& Command::option(const std::string& names, std::string& value, const std::string& help) {
  last_option_ = add_option(app_, names, value, help);
  return *this;
}
Command& Command::option(const std::string& names, std::optional<std::string>& value,
                         const std::string& help) {
  last_option_ = add_optional(app_, names, value, help);
  return *this;
}
Command& Command::option(const std::string& names, std::optional<std::int64_t>& value,
                         const std::string& help) {
  last_option_ = add_optional(app_, names, value, help);
  return *this;
}
Command& Command::option(const std::string& names, std::optional<std::uint64_t>& value,
                         const std::string& help) {
  last_option_ = add_optional(app_, names, value, help);
  return *this;
}
Command& Command::option(const std::string& names, std::optional<double>& value, const std::string& help) {
  last_option_ = add_optional(app_, names, value, help);
  return *this;
}
Command& Command::option(const std::string& names, std::int64_t& value, const std::string& help) {
  last_option_ = add_option(app_, names, value, help);
  return *this;
}
Command& Command::option(const std::string& names, std::uint64_t& value, const std::string& help) {
  last_option_ = add_option(app_, names, value, help);
  return *this;
}
Command& Command::option(const std::string& names, double& value, const std::string& help) {
  last_option_ = add_option(app_, names, value, help);
  return *this;
}
Command& Command::option(const std::string& names, std::vector<std::string>& values,
                         const std::string& help) {
  CLI::Option* option = app_->add_option(names, values, help);
  option->allow_extra_args(names.front() != '-');  // a positional list takes all that follows
  option->take_all();
  last_option_ = option;
  return *this;
}
Command& Command::required() {
  // What the variable holds is not the default of an option that has to be given.
  static_cast<CLI::Option*>(last_option_)->required()->default_str("");
  return *this;
}
Command& Command::one_of(const std::vector<std::string>& choices) {
  static_cast<CLI::Option*>(last_option_)->check(CLI::IsMember(choices));
  return *this;
}
Command& Command::suggests(const std::vector<std::string>& words) {
  const auto any = [](std::string&) { return std::string(); };
  static_cast<CLI::Option*>(last_option_)
      ->check(CLI::Validator(any, fmt::format("suggests{{{}}}", fmt::join(words, ","))));
  return *this;
}
Command& Command::placeholder(const std::string& word) {
  static_cast<CLI::Option*>(last_option_)->type_name(word);
  return *this;
}
Command& Command::alone(const std::string& word) {
  static_cast<CLI::Option*>(last_option_)->expected(0, 1)->default_str(word);
  return *this;
}
Command& Command::shows_default(const std::string& word) {
  static_cast<CLI::Option*>(last_option_)->default_str(word);
  return *this;
}
Command& Command::flag(const std::string& names, bool& value, const std::string& help) {
  last_option_ = app_->add_flag(names, value, help);
  return *this;
}

Command& Command::example(const std::string& command, const std::string& what) {
  const std::string before = app_->get_footer().empty() ? "Examples:\n" : app_->get_footer();
  app_->footer(before + fmt::format("  {}\n      {}\n", command, what));
  return *this;
}

namespace {

// Each of several processes that do one run has a file of its own.
std::string trace_path(const std::string& path) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr || std::string_view(rank) == "0") return path;
  const std::filesystem::path whole(path);
  return (whole.parent_path() /
          fmt::format("{}.rank{}{}", whole.stem().string(), rank, whole.extension().string()))
      .string();
}

// A run that fails leaves its trace, too.
int trace_run(const std::string& path, const std::string& command, const std::function<int()>& action) {
  Trace trace(trace_path(path), {{"program", fmt::format("ingot {}", version())}, {"command", command}});
  int code = 0;
  try {
    code = action();
  } catch (...) {
    trace.finish();
    throw;
  }
  trace.finish();
  return code;
}

}  // namespace

// Every command takes --trace, for what it waits for may be a disk or a network as well as a kernel, and
// --plugin, for what it needs may be a kernel, a format or a reporter.
Command& Command::run(std::function<int()> action) {
  auto path = std::make_shared<std::optional<std::string>>();
  auto plugins = std::make_shared<std::vector<std::string>>();
  option("--trace", *path, "Record what runs when, in which module: a JSON file for ui.perfetto.dev")
      .placeholder("FILE");
  option("--plugin", *plugins,
         "Load a shared library that adds kernels, formats or reporters (may be repeated)")
      .placeholder("FILE");
  // CLI11 runs callbacks while parsing; the exit code leaves through an exception that run_command_line
  // catches.
  app_->callback([path, plugins, command = full_name(*app_), action = std::move(action)] {
    for (const std::string& plugin : *plugins) load_plugin(plugin);
    throw CLI::RuntimeError(path->has_value() ? trace_run(**path, command, action) : action());
  });
  return *this;
}

int report_error(const std::exception& error, bool json) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  const std::string_view kind = ours != nullptr ? ours->kind() : "error";
  const std::string message = message_of(error);
  print_error(kind, message, "ingot: " + shown_message(error), json);
  if (dynamic_cast<const Interrupted*>(&error) != nullptr) return interrupt_exit_code();
  return dynamic_cast<const InvalidConfig*>(&error) != nullptr ? 2 : 1;
}

namespace {

int parse_and_run(CLI::App* app, int argc, char** argv, bool json) {
  try {
    app->parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& finished) {
    return finished.get_exit_code();
  } catch (const CLI::CallForHelp&) {
    print_help(deepest(*app));
    return 0;
  } catch (const CLI::Success& e) {
    return app->exit(e);
  } catch (const CLI::ParseError& error) {
    if (argc == 1) {
      print_help(*app);
      return 2;
    }
    return usage_error(*app, error, json);
  }
}

// Around the handlers of parsing, too: help may find that its reader has left.
int run_command(CLI::App* app, int argc, char** argv, bool json) {
  try {
    return parse_and_run(app, argc, argv, json);
  } catch (const std::system_error& error) {
    return error.code() == std::errc::broken_pipe ? kReaderLeft : report_error(error, json);
  } catch (const std::exception& error) {
    return report_error(error, json);
  }
}

}  // namespace

int run_command_line(int argc, char** argv, const Program& program) {
  // `ingot ... | head` and a file as large as `ulimit -f` allows end with a write error, not by a signal in
  // mid-save.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const auto app = make_app(program);
  bool json = false;
  for (int i = 1; i < argc; ++i) json = json || std::string_view(argv[i]) == "--json";
  return after_output(run_command(app.get(), argc, argv, json), json);
}

std::string documentation(const Program& program, std::string_view kind) {
  const auto app = make_app(program);
  return kind == "man" ? man_page(*app) : completion_script(*app, kind);
}

}  // namespace ingot::cli
