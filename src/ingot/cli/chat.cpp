#include <csignal>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/utf8.h"
#include "ingot/cli/chat_model.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/line_editor.h"
#include "ingot/cli/ranks.h"

namespace ingot::cli {
namespace {

struct ChatOptions {
  InferenceOptions inference;
  TextFlags text;
  std::string server, key, system, full = "slide";
  bool stats = false, no_history = false;
};

constexpr const char* kHelp =
    "/retry         answer the last question once more\n"
    "/system TEXT   tell the model this before the conversation; nothing: no more\n"
    "/model NAME    ask another model of the server from now on; nothing: list them\n"
    "/save FILE     write the conversation as a line of JSON, as fine-tuning reads it\n"
    "/reset         begin a new conversation\n"
    "/help          this list\n"
    "/exit          leave (or Ctrl-D)\n"
    "Several lines: end each but the last with \\, or put them between \"\"\" and \"\"\".\n"
    "Ctrl-C stops an answer; a second one leaves.\n";

/// While one lives, Ctrl-C is counted: the first stops what goes on, the second ends the process.
class StopKey {
 public:
  StopKey() {
    pressed_ = 0;
    struct sigaction action {};
    action.sa_handler = [](int) {
      pressed_ = pressed_ + 1;
      if (pressed_ > 1) ::_exit(128 + SIGINT);
      LineEditor::interrupt();
    };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, &before_);
  }
  ~StopKey() { ::sigaction(SIGINT, &before_, nullptr); }
  StopKey(const StopKey&) = delete;
  StopKey& operator=(const StopKey&) = delete;

  static bool was_pressed() { return pressed_ != 0; }
  static void forget() {
    pressed_ = 0;
    LineEditor::forget_interrupts();
  }

 private:
  static inline volatile std::sig_atomic_t pressed_ = 0;
  struct sigaction before_ {};
};

std::string history_file() {
  const std::string state = first_variable({"XDG_STATE_HOME"}), home = first_variable({"HOME"});
  if (state.empty() && home.empty()) return {};
  return (state.empty() ? home + "/.local/state" : state) + "/ingot/chat_history";
}

infer::FullContext full_context(const std::string& name) {
  if (name == "slide") return infer::FullContext::slide;
  return name == "summarize" ? infer::FullContext::summarize : infer::FullContext::stop;
}

/// A conversation, and the commands about it.
class Conversation {
 public:
  Conversation(ChatModel& chat, bool stats) : chat_(chat), stats_(stats) {}

  /// False: leave. In a pipe an error of the model ends the run. Elsewhere it is shown, as are those of
  /// commands, and the conversation goes on.
  bool handle(const std::string& line, bool terminal) {
    try {
      return handle(line);
    } catch (const Error& error) {
      const bool command = line.find_first_not_of(" \t") == line.find('/');
      if (!terminal && !command) throw;
      fmt::print(stderr, "ingot: {}\n", printable_message(error));
      if (!terminal) exit_code_ = 1;
      return true;
    }
  }
  /// 1 where a command of a pipe failed.
  int exit_code() const { return exit_code_; }

 private:
  bool handle(const std::string& line) {
    const std::size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string::npos) return true;
    if (line[start] != '/') {
      show(chat_.answer(line.substr(0, line.find_last_not_of('\r') + 1), show_piece));
      return true;
    }
    const std::size_t space = line.find_first_of(" \t", start);
    std::string command = line.substr(start, space - start);
    command.erase(command.find_last_not_of('\r') + 1);
    std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    rest.erase(rest.find_last_not_of(" \t\r") + 1);
    return command != "/exit" && command != "/quit" && (run_command(command, rest), true);
  }

  void run_command(const std::string& command, const std::string& rest) {
    if (command == "/reset") return chat_.reset();
    if (command == "/retry") return show(chat_.retry(show_piece));
    if (command == "/system") return chat_.set_system(rest);
    if (command == "/model") return choose_model(rest);
    if (command == "/save") return save(rest);
    if (command != "/help") fmt::print(stderr, "{} is not known:\n", printable(command));
    fmt::print(stderr, "{}", kHelp);
  }

  static bool show_piece(std::string_view piece) { return print_piece(piece) && !StopKey::was_pressed(); }

  void show(const ChatAnswer& answer) {
    fmt::print("\n");
    if (StopKey::was_pressed()) fmt::print(stderr, "[stopped]\n");
    if (chat_.forgotten() > forgotten_) {
      fmt::print(stderr, "[the context is full: {} {} with the answers]\n",
                 counted_are(chat_.forgotten(), "question"), chat_.summarized() ? "summed up" : "forgotten");
    }
    forgotten_ = chat_.forgotten();
    if (stats_) print_stats(answer);
  }

  void print_stats(const ChatAnswer& answer) const {
    std::string line = fmt::format("first word after {:.2f} s", answer.first_seconds);
    if (answer.tokens >= 0)
      line += fmt::format(", then {:.1f} tokens/s",
                          static_cast<double>(answer.tokens) / std::max(answer.rest_seconds, 1e-9));
    if (answer.conversation_tokens >= 0) line += fmt::format("; {}", answer.conversation_tokens);
    if (answer.conversation_tokens >= 0 && chat_.context() > 0)
      line += fmt::format(" of {}", chat_.context());
    if (answer.conversation_tokens >= 0) line += " tokens of context";
    fmt::print(stderr, "[{}]\n", printable(line));
  }

  void choose_model(const std::string& name) {
    if (!name.empty()) return chat_.choose_model(name);
    for (const std::string& each : chat_.models())
      fmt::print(stderr, "{} {}\n", each == chat_.model() ? '*' : ' ', printable(each));
  }

  void save(const std::string& path) const {
    INGOT_CHECK(!path.empty(), InvalidConfig("/save", "needs the file to write, as in /save talk.jsonl"));
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    for (const text::ChatMessage& message : chat_.transcript())
      messages.push_back({{"role", message.role}, {"content", message.content}});
    write_file_atomically(path, dump_json(nlohmann::ordered_json{{"messages", messages}}) + "\n");
    fmt::print(stderr, "{}: {}\n", printable(path), counted(std::ssize(messages), "message"));
  }

  ChatModel& chat_;
  const bool stats_;
  std::int64_t forgotten_ = 0;
  int exit_code_ = 0;
};

// What no template and no file of chats could hold is replaced, and told.
std::string valid_line(const std::string& line) {
  if (is_valid_utf8(line)) return line;
  fmt::print(stderr, "ingot: the line holds bytes that are not UTF-8; they are read as U+FFFD\n");
  return to_valid_utf8(line);
}

// A turn: a line, and those behind it where it ends with a backslash or begins with three quotes, up to three
// quotes at the end of one. Nothing where the input ends, or Ctrl-C was pressed.
std::optional<std::string> read_turn(LineEditor& editor) {
  constexpr std::string_view kQuotes = "\"\"\"";
  std::optional<std::string> turn = editor.read("> ");
  if (!turn) return turn;
  const bool quoted = turn->starts_with(kQuotes);
  if (quoted) turn->erase(0, kQuotes.size());
  while (quoted ? !turn->ends_with(kQuotes) : turn->ends_with('\\')) {
    if (!quoted) turn->pop_back();
    const std::optional<std::string> more = editor.read("| ");
    if (!more) return StopKey::was_pressed() ? std::nullopt : turn;
    *turn += '\n' + *more;
  }
  if (quoted) turn->erase(turn->size() - kQuotes.size());
  return turn;
}

int converse(Conversation& conversation, bool terminal, const std::string& history) {
  LineEditor editor(history);
  const StopKey stop;
  bool leaves = false;  // at the next Ctrl-C: one stopped the answer, or nothing was typed since the last
  while (true) {
    StopKey::forget();
    const std::optional<std::string> line = read_turn(editor);
    if (!line && StopKey::was_pressed()) {
      if (leaves || !terminal) return 128 + SIGINT;
      fmt::print(stderr, "\nCtrl-C again, or Ctrl-D, leaves.\n");
      leaves = true;
      continue;
    }
    StopKey::forget();
    if (!line || !conversation.handle(valid_line(*line), terminal)) return conversation.exit_code();
    leaves = StopKey::was_pressed();
  }
}

int talk(ChatModel& chat, const ChatOptions& o) {
  Conversation conversation(chat, o.stats);
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) fmt::print(stderr, "/help lists what else you can type; Ctrl-D leaves.\n");
  return converse(conversation, terminal, o.no_history ? "" : history_file());
}

int talk_with_server(const ChatOptions& o) {
  INGOT_CHECK(o.inference == InferenceOptions{.model = o.inference.model},
              InvalidConfig("--server",
                            "runs the model elsewhere: options of how it is run (--device, "
                            "--format, --context, ...) are the server's"));
  INGOT_CHECK(o.full != "summarize",
              InvalidConfig("--full-context",
                            "summarize is for a model on this machine; with --server it is "
                            "slide or stop"));
  const std::unique_ptr<ChatModel> chat =
      remote_chat({.server = o.server,
                   // Environment: OPENAI_API_KEY | the key that `ingot chat --server` sends
                   .key = o.key.empty() ? first_variable({"OPENAI_API_KEY"}) : o.key,
                   .model = o.inference.model,
                   .system = o.system,
                   .fields = dump_json(o.text.fields()),
                   .slide = o.full == "slide",
                   .usage = o.stats,
                   .stopped = StopKey::was_pressed});
  return talk(*chat, o);
}

int talk_here(const ChatOptions& o, const infer::SessionOptions& options) {
  infer::Session session(options);
  infer::TextOptions text =
      session.options({.max_tokens = 1024, .speculate = speculated_tokens(o.inference)});
  o.text.apply(text);
  return talk(*local_chat(session, text, o.system, full_context(o.full)), o);
}

int run(const ChatOptions& o) {
  if (!o.server.empty()) return talk_with_server(o);
  INGOT_CHECK(!o.inference.model.empty(),
              InvalidConfig("MODEL",
                            "is missing: name a directory, a .gguf file or a model of the Hub, or give "
                            "--server URL"));
  const auto session = [&] {
    infer::SessionOptions options = session_options(o.inference);
    options.engine.prefix_cache = true;  // a turn goes on where the last one ended
    return options;
  };
  return run_with_model(o.inference, false, session,
                        [&](const infer::SessionOptions& options) { return talk_here(o, options); });
}

}  // namespace

void add_chat(Command& root) {
  auto o = std::make_shared<ChatOptions>();
  Command command = root.subcommand(
      "chat",
      "Talk with a model; a line of input is a turn, also from a pipe (/help tells how to write several)");
  command.option(
      "model", o->inference.model,
      "Model directory (config.json, weights, tokenizer.json), or a .gguf file; with --server a name "
      "that the server knows");
  add_run_options(command, o->inference);
  add_draft_option(command, o->inference);
  add_tensor_parallel_option(command, o->inference);
  command
      .option(
          "--server", o->server,
          "Talk with a model of this server instead, by OpenAI's API: http://HOST:PORT, or a whole base URL "
          "such as https://HOST/api/v1")
      .placeholder("URL");
  command.option("--api-key", o->key, "Key for the server ($OPENAI_API_KEY)").placeholder("KEY");
  command.option("--system", o->system, "What the model is told before the conversation")
      .placeholder("MESSAGE");
  command
      .option("--full-context", o->full,
              "When the conversation outgrows the context: slide forgets the oldest turns, summarize has the "
              "model sum them up, stop is an error")
      .one_of({"slide", "summarize", "stop"});
  o->text.add_to(command);
  command.flag("--stats", o->stats, "Report speed on stderr after each answer");
  command.flag("--no-history", o->no_history,
               "Neither read nor keep the lines typed, in ~/.local/state/ingot/chat_history");
  command.example("ingot chat Qwen/Qwen3-0.6B --format q8_0",
                  "asks to fetch the model and begins a conversation");
  command.example("ingot chat --server http://127.0.0.1:8000",
                  "talks with what ingot serve, vLLM, llama-server or Ollama serves there");
  command.example("echo 'Name three rivers.' | ingot chat out/model -t 0", "one question, one answer");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
