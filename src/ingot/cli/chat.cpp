#include "ingot/infer/chat.h"

#include <iostream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/progress.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/verbs.h"

namespace ingot::cli {
namespace {

struct ChatOptions {
  InferenceOptions inference;
  TextFlags text;
  std::string system;
  bool stats = false;
};

constexpr const char* kHelp =
    "/reset  begin a new conversation\n"
    "/help   this list\n"
    "/exit   leave (or Ctrl-D)\n";

void print_stats(const infer::WrittenText& answer, std::int64_t used, std::int64_t context) {
  const infer::Generation& g = answer.generation;
  fmt::print(stderr, "[first word after {:.2f} s, then {:.1f} tokens/s; {} of {} tokens of context]\n",
             g.prompt_seconds, static_cast<double>(g.tokens.size()) / std::max(g.decode_seconds, 1e-9), used,
             context);
}

// False: leave. In a pipe an error ends the run; at a terminal it is shown, and the conversation goes on.
bool handle(infer::Chat& chat, const std::string& line, bool terminal,
            const std::function<void(const infer::WrittenText&)>& on_answer) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return true;
  if (line == "/exit" || line == "/quit") return false;
  if (line == "/help") {
    fmt::print(stderr, "{}", kHelp);
  } else if (line == "/reset") {
    chat.reset();
  } else if (line.front() == '/') {
    fmt::print(stderr, "{} is not known:\n{}", line, kHelp);
  } else {
    try {
      on_answer(chat.answer(line, print_piece));
    } catch (const Error& error) {
      if (!terminal) throw;
      fmt::print(stderr, "ingot: {}\n", error.what());
    }
  }
  return true;
}

int run(const ChatOptions& o) {
  infer::SessionOptions options = session_options(o.inference);
  options.engine.prefix_cache = true;  // a turn goes on where the last one ended
  infer::Session session(options);
  infer::TextOptions text = session.options({.max_tokens = 1024, .speculate = o.inference.speculate});
  o.text.apply(text);
  infer::Chat chat(session, text, o.system);
  const bool terminal = is_terminal(STDIN_FILENO);
  if (terminal) fmt::print(stderr, "/help lists what else you can type; Ctrl-D leaves.\n");
  const auto on_answer = [&](const infer::WrittenText& answer) {
    fmt::print("\n");
    if (o.stats) print_stats(answer, chat.tokens(), session.engine().context());
  };
  std::string line;
  while (true) {
    if (terminal) fmt::print(stderr, "> ");
    if (!std::getline(std::cin, line) || !handle(chat, line, terminal, on_answer)) return 0;
  }
}

}  // namespace

void add_chat(Command& root) {
  auto o = std::make_shared<ChatOptions>();
  Command verb = root.verb("chat", "Talk with a model; a line of input is a turn, also from a pipe");
  add_inference_options(verb, o->inference);
  verb.option("--system", o->system, "What the model is told before the conversation");
  o->text.add_to(verb);
  verb.flag("--stats", o->stats, "Report speed on stderr after each answer");
  verb.example("ingot chat Qwen/Qwen3-0.6B --format q8_0", "fetches the model and begins a conversation");
  verb.example("echo 'Name three rivers.' | ingot chat out/model -t 0", "one question, one answer");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
