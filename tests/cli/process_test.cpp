#include "tests/cli/process.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/version.h"

namespace ingot::testing {
namespace {

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// A command that waits for ever is killed, and its test fails, instead of the test waiting, too.
constexpr unsigned kSeconds = 300;

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

Outcome run_with(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                 const std::string& input_path) {
  const test::TemporaryDirectory folder;
  const std::string errors_path = folder.at("stderr");
  std::string command = "env";
  for (const std::string& setting : environment) command += " " + quoted(setting);
  command += " " + quoted(INGOT_BINARY);
  for (const std::string& argument : arguments) command += " " + quoted(argument);
  command += " 2>" + quoted(errors_path) + " <" + quoted(input_path);
  Outcome outcome;
  command.insert(0, "exec timeout -k 5 " + std::to_string(kSeconds) + " ");
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> buffer{};
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    outcome.output.append(buffer.data(), n);
  }
  outcome.exit_code = exit_code(::pclose(pipe));
  std::ifstream errors(errors_path);
  outcome.errors.assign(std::istreambuf_iterator<char>(errors), {});
  return outcome;
}

}  // namespace

Outcome run_ingot(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  return run_with(arguments, environment, "/dev/null");
}

Outcome run_ingot_with_input(const std::vector<std::string>& arguments, const std::string& input) {
  const test::TemporaryDirectory folder;
  const std::string path = folder.at("stdin");
  std::ofstream(path) << input;
  return run_with(arguments, {}, path);
}

Outcome run_ingot_on_terminal(const std::vector<std::string>& arguments, const TerminalWatch& watch) {
  std::vector<char*> argv;
  std::string binary = INGOT_BINARY;
  std::vector<std::string> copy = arguments;
  argv.push_back(binary.data());
  for (std::string& argument : copy) argv.push_back(argument.data());
  argv.push_back(nullptr);
  winsize size{.ws_row = 30, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    ::setenv("TERM", "xterm-256color", 1);
    // As a terminal would start it: what runs the tests (nohup, a service) may ignore some of these.
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE}) ::signal(number, SIG_DFL);
    ::alarm(kSeconds);
    ::execv(binary.c_str(), argv.data());
    ::_exit(127);
  }
  Outcome outcome;
  std::array<char, 4096> buffer{};
  for (ssize_t n; (n = ::read(terminal, buffer.data(), buffer.size())) > 0;) {  // EIO once the child is gone
    outcome.output.append(buffer.data(), static_cast<std::size_t>(n));
    if (watch) watch(outcome.output, child, terminal);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (watch) watch(outcome.output, 0, terminal);
  ::close(terminal);
  outcome.exit_code = exit_code(status);
  return outcome;
}

namespace {

TEST(CommandLine, TeachesWhenNothingOrSomethingUnknownIsTyped) {
  const Outcome nothing = run_ingot({});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_NE(nothing.output.find("demo"), std::string::npos);
  const Outcome command = run_ingot({"trian", "x.yaml"});
  EXPECT_EQ(command.exit_code, 2);
  EXPECT_NE(command.errors.find("'trian' is not"), std::string::npos) << command.errors;
  EXPECT_NE(command.errors.find("train"), std::string::npos) << command.errors;
  const Outcome option = run_ingot({"generate", "m", "--temprature", "1"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_NE(option.errors.find("--temperature"), std::string::npos) << option.errors;
  const Outcome help = run_ingot({"generate", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.output.find("Examples:"), std::string::npos);
}

TEST(CommandLine, TellsTheVersionOfTheLibraryItsBackendsAndItsCompiler) {
  const Outcome outcome = run_ingot({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.output.starts_with("ingot " + std::string(version()) + "\n")) << outcome.output;
  for (const char* line : {"\nbackends  cpu", "\ncompiler  "})
    EXPECT_NE(outcome.output.find(line), std::string::npos) << outcome.output;
}

/// The longest line of a text, in bytes.
std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    longest = std::max(longest, end - start);
    start = end + 1;
  }
  return longest;
}

TEST(CommandLine, HelpWrapsAtTheWidthThatThereIsAndNamesWhatOptionsTake) {
  for (const std::size_t columns : {40U, 80U, 120U, 300U}) {
    const std::string help = run_ingot({"train", "--help"}, {"COLUMNS=" + std::to_string(columns)}).output;
    const std::string options = help.substr(0, help.find("Examples:"));  // commands to copy stay whole
    EXPECT_LE(longest_line(options), columns) << options;
  }
  const std::string help = run_ingot({"chat", "--help"}, {"COLUMNS=200"}).output;
  for (const char* part : {"Usage: ingot chat [OPTIONS] [MODEL]", "-n, --max-tokens N", "--device DEVICE",
                           "--system MESSAGE", "(auto, f32, bf16, f16, i8)", "[default: slide]"})
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
}

TEST(CommandLine, HelpIsACommandToo) {
  EXPECT_EQ(run_ingot({"help", "forecast", "fit"}).output, run_ingot({"forecast", "fit", "--help"}).output);
  EXPECT_EQ(run_ingot({"help"}).output, run_ingot({"--help"}).output);
  const Outcome unknown = run_ingot({"help", "trian"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.errors.find("did you mean 'train'"), std::string::npos) << unknown.errors;
}

// Names of the commands below one whose help this is.
std::vector<std::string> subcommands(const std::string& help) {
  const std::size_t begin = help.find("\nSubcommands:\n");
  std::vector<std::string> names;
  std::istringstream lines(begin == std::string::npos ? "" : help.substr(begin + 1));
  for (std::string line; std::getline(lines, line) && !line.empty();)
    if (line.starts_with("  ") && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
  return names;
}

// The examples in a help: one command each.
std::vector<std::string> examples(const std::string& help) {
  const std::size_t begin = help.find("Examples:\n");
  std::vector<std::string> commands;
  std::istringstream lines(begin == std::string::npos ? "" : help.substr(begin));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ") && line[2] != ' ') commands.push_back(line.substr(2));
  return commands;
}

// Commands below `path`, itself included; of each, the examples in its help.
void collect_commands(const std::vector<std::string>& path,
                      std::map<std::string, std::vector<std::string>>& commands) {
  std::vector<std::string> words = path;
  words.emplace_back("--help");
  const std::string help = run_ingot(words).output;
  std::string name = "ingot";
  for (const std::string& word : path) name += " " + word;
  if (!path.empty()) commands[name] = examples(help);
  for (const std::string& below : subcommands(help)) {
    words.back() = below;
    collect_commands(words, commands);
  }
}

TEST(CommandLine, TheHelpOfEveryCommandHasExamplesOfItsOwn) {
  std::map<std::string, std::vector<std::string>> commands;
  collect_commands({}, commands);
  EXPECT_TRUE(commands.contains("ingot mahjong dataset stats"));
  for (const auto& [name, shown] : commands) {
    ASSERT_FALSE(shown.empty()) << name;
    EXPECT_NE(shown.front().find(name), std::string::npos) << name << ": " << shown.front();
    EXPECT_EQ(std::set<std::string>(shown.begin(), shown.end()).size(), shown.size()) << name;
  }
}

TEST(CommandLine, ACommandOfSeveralNamesThem) {
  const Outcome outcome = run_ingot({"cache"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.errors.find("ingot cache: needs one of list, rm, prune"), std::string::npos)
      << outcome.errors;
}

TEST(CommandLine, FailuresHaveTheirExitCodesAndComeAsJsonOnRequest) {
  const Outcome missing = run_ingot({"inspect", "/no/such/model"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.errors.find("/no/such/model"), std::string::npos);
  const Outcome json = run_ingot({"inspect", "/no/such/model", "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(json.errors.rfind("{\"error\":{\"kind\":", 0), 0U) << json.errors;
  const Outcome usage = run_ingot({"inspect", "--json", "--nosuch"});
  EXPECT_EQ(usage.exit_code, 2);
  EXPECT_EQ(usage.errors,
            "{\"error\":{\"kind\":\"usage\",\"message\":\"ingot inspect: '--nosuch' is not known\"}}\n");
}

/// What `ingot` says on stderr, and its exit code, where the shell runs `before`, ingot, `after`.
Outcome run_in_shell(const std::string& before, const std::string& after) {
  Outcome outcome;
  FILE* pipe = ::popen(("exec 3>&1; " + before + quoted(INGOT_BINARY) + after).c_str(), "r");
  std::array<char, 4096> buffer{};
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.errors.append(buffer.data(), n);
  outcome.exit_code = exit_code(::pclose(pipe));
  return outcome;
}

TEST(CommandLine, OutputThatCannotBeWrittenIsAnError) {
  const Outcome full = run_in_shell("", " models >/dev/full 2>&3");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_NE(full.errors.find("No space left on device"), std::string::npos) << full.errors;
}

TEST(CommandLine, AnErrorThatCannotBeWrittenStillHasItsExitCode) {
  EXPECT_EQ(run_in_shell("", " inspect /no/such/model 2>/dev/full").exit_code, 1);
  EXPECT_EQ(run_in_shell("", " inspect --nosuch 2>/dev/full").exit_code, 2);
}

TEST(CommandLine, AReaderThatHasSeenEnoughNeedsNoMessage) {
  EXPECT_EQ(run_in_shell("", " --help 2>&3 | true").errors, "");
}

TEST(CommandLine, HelpThatCannotBeWrittenIsAnError) {
  for (const char* words : {" --help", " help forecast fit"}) {
    const Outcome outcome = run_in_shell("", std::string(words) + " 2>&3 >/dev/full");
    EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
    EXPECT_NE(outcome.errors.find("No space left"), std::string::npos) << outcome.errors;
  }
}

TEST(CommandLine, AFileThatGrowsTooLargeEndsWithAnErrorAndLeavesNothing) {
  const test::TemporaryDirectory folder;
  const Outcome outcome =
      run_in_shell("ulimit -f 0; ", " mahjong play --player random --save " + quoted(folder.at("game.json")) +
                                        " >/dev/null 2>&3");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
  EXPECT_NE(outcome.errors.find("File too large"), std::string::npos) << outcome.errors;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(CommandLine, StartsWithoutTheLibrariesOfTheNetwork) {
  const Outcome outcome =
      run_ingot({}, {"LD_TRACE_LOADED_OBJECTS=1"});  // the loader lists what it would load
  EXPECT_NE(outcome.output.find("libc.so"), std::string::npos) << outcome.output;
  for (const char* library : {"libcurl", "libssl", "libgnutls", "libhwy"}) {
    EXPECT_EQ(outcome.output.find(library), std::string::npos) << outcome.output;
  }
}

TEST(CommandLine, CompletionScriptsNameEveryCommand) {
  for (const char* shell : {"bash", "zsh", "fish", "man"}) {
    const Outcome script = run_ingot({"completion", shell});
    EXPECT_EQ(script.exit_code, 0);
    for (const char* word : {"train", "generate", "max", "completion"}) {
      EXPECT_NE(script.output.find(word), std::string::npos) << shell << " " << word;
    }
  }
}

std::string output_of(const std::string& shell, const std::string& script) {
  FILE* pipe = ::popen((shell + " " + quoted(script)).c_str(), "r");
  std::array<char, 4096> buffer{};
  const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe);
  EXPECT_EQ(::pclose(pipe), 0);
  return {buffer.data(), count};
}

bool has_shell(const char* name) {
  return output_of("sh -c", std::string("command -v ") + name + " || true") != "";
}

std::string completion(const char* shell) { return quoted(INGOT_BINARY) + " completion " + shell; }

/// What bash offers behind these words, the last of which is being typed.
std::string completed(const std::string& words) {
  return output_of("bash -c",
                   "source <(" + completion("bash") + "); COMP_WORDS=(" + words +
                       "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ingot; echo \"${COMPREPLY[*]}\"");
}

TEST(CommandLine, BashCompletesCommandsOptionsAndChoices) {
  EXPECT_EQ(completed("ingot forec"), "forecast\n");
  EXPECT_EQ(completed("ingot forecast fi"), "fit\n");
  EXPECT_EQ(completed("ingot help forecast fi"), "fit\n");
  EXPECT_EQ(completed("ingot generate model --max-t"), "--max-tokens\n");
  EXPECT_EQ(completed("ingot chat model --full-context s"), "slide summarize stop\n");
  EXPECT_EQ(completed("ingot chat --full-context = s"), "slide summarize stop\n") << "as bash splits it";
  EXPECT_EQ(completed("ingot train --set ''"), "\n");  // any value: the shell's own file names
  EXPECT_EQ(completed("ingot quantize m o --format q5_"), "q5_0 q5_1 q5_k\n") << "though others are taken";
  EXPECT_EQ(completed("ingot forecast fit t.csv --model seas"), "seasonal_naive\n");
}

/// The same in zsh, with what its completion system would do in print.
std::string completed_by_zsh(const std::string& words) {
  return output_of("zsh -f -c",
                   "compadd() { shift; print -r -- ${(M)@:#$PREFIX*} }; _files() { print files }; "
                   "compset() { PREFIX=${PREFIX#*=} }; compdef() { : }; source <(" +
                       completion("zsh") + "); words=(" + words +
                       "); CURRENT=$#words; PREFIX=$words[-1]; _ingot");
}

TEST(CommandLine, ZshCompletesCommandsOptionsChoicesAndFiles) {
  if (!has_shell("zsh")) GTEST_SKIP() << "no zsh";
  EXPECT_EQ(completed_by_zsh("ingot forec"), "forecast\n") << "no files beside commands";
  EXPECT_EQ(completed_by_zsh("ingot help forecast fi"), "fit\n");
  EXPECT_EQ(completed_by_zsh("ingot generate model --max-t"), "--max-tokens\n");
  EXPECT_EQ(completed_by_zsh("ingot chat model --full-context s"), "slide summarize stop\n");
  EXPECT_EQ(completed_by_zsh("ingot chat --full-context=sl"), "slide\n");
  EXPECT_EQ(completed_by_zsh("ingot train --set ''"), "files\n");
  EXPECT_EQ(completed_by_zsh("ingot completion z"), "zsh\n");
}

TEST(CommandLine, FishCompletesCommandsOptionsAndChoices) {
  if (!has_shell("fish")) GTEST_SKIP() << "no fish";
  const test::TemporaryDirectory directory;
  const auto offered = [&](const std::string& line) {
    return output_of(
        "cd " + quoted(directory.path()) + "; HOME=. fish -N -c",
        completion("fish") + " | source; complete -C '" + line + "' | string replace -r '\\t.*' ''; true");
  };
  EXPECT_EQ(offered("ingot forec"), "forecast\n");
  EXPECT_EQ(offered("ingot help forecast fi"), "fit\n");
  EXPECT_EQ(offered("ingot generate model --max-t"), "--max-tokens\n");
  EXPECT_EQ(offered("ingot chat model --full-context s"), "slide\nstop\nsummarize\n");
  EXPECT_EQ(offered("ingot chat --full-context=sl"), "--full-context=slide\n");
  EXPECT_EQ(offered("ingot completion z"), "zsh\n");
}

}  // namespace
}  // namespace ingot::testing
