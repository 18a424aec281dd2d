#include <cstdio>
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/progress.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/verbs.h"
#include "ingot/text/chat_template.h"
#include "ingot/text/detokenize_stream.h"

namespace ingot::cli {
namespace {

struct ChatOptions {
  InferenceOptions inference;
  SamplingFlags sampling;
  std::string system;
  bool stats = false;
};

constexpr const char* kHelp =
    "/reset  begin a new conversation\n"
    "/help   this list\n"
    "/exit   leave (or Ctrl-D)\n";

// A conversation: what was said, and the sequence whose cache still holds it.
class Chat {
 public:
  explicit Chat(const ChatOptions& options)
      : options_(options),
        opened_(open_for_inference(options.inference)),
        engine_(*opened_.model, opened_.engine),
        template_(chat_template(opened_)) {
    reset();
  }

  void reset() {
    messages_.clear();
    if (!options_.system.empty()) messages_.push_back({"system", options_.system});
  }

  /// Streams the answer to stdout.
  void answer(const std::string& question) {
    messages_.push_back({"user", question});
    infer::Request request = options_.sampling.request();
    request.speculate = options_.inference.speculate;
    request.stop_tokens = end_tokens(opened_);
    try {
      request.prompt = prompt();
      text::DetokenizeStream stream(opened_.tokenizer);
      std::string said;
      request.on_token = [&](std::int32_t id) { return show(stream.push(id), said); };
      run(std::move(request));
      show(stream.finish(), said);
      fmt::print("\n");
      messages_.push_back({"assistant", said});
    } catch (const Error&) {
      messages_.pop_back();  // the question was not answered
      throw;
    }
    if (options_.stats) print_speed();
  }

 private:
  static text::ChatTemplate chat_template(const InferenceModel& opened) {
    const std::string& source = opened.tokenizer.config().chat_template;
    INGOT_CHECK(!source.empty(),
                InvalidConfig("chat_template",
                              opened.path + " has none (tokenizer_config.json), so it was not made for "
                                            "conversation; 'ingot generate' continues a text with it"));
    return text::ChatTemplate(source);
  }

  std::vector<std::int32_t> prompt() const {
    const text::TokenizerConfig& config = opened_.tokenizer.config();
    const std::string rendered = template_.render({.messages = text::messages_json(messages_),
                                                   .add_generation_prompt = true,
                                                   .bos_token = config.bos_token,
                                                   .eos_token = config.eos_token,
                                                   .unk_token = config.unk_token,
                                                   .pad_token = config.pad_token});
    // The template writes the special tokens itself.
    return opened_.tokenizer.encode(rendered, {.add_special_tokens = false});
  }

  static bool show(const std::string& piece, std::string& said) {
    said += piece;
    return std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size() && std::fflush(stdout) == 0;
  }

  void run(infer::Request request) {
    if (sequence_ == nullptr) {
      sequence_ = engine_.start(std::move(request));
    } else {
      engine_.restart(*sequence_, std::move(request));
    }
    engine_.run();
  }

  void print_speed() const {
    const infer::Generation& r = sequence_->result();
    fmt::print(stderr, "[first word after {:.2f} s, then {:.1f} tokens/s; {} of {} tokens of context]\n",
               r.prompt_seconds, static_cast<double>(r.tokens.size()) / std::max(r.decode_seconds, 1e-9),
               sequence_->tokens().size(), engine_.context());
  }

  ChatOptions options_;
  InferenceModel opened_;
  infer::Engine engine_;
  text::ChatTemplate template_;
  std::vector<text::ChatMessage> messages_;
  std::shared_ptr<infer::Sequence> sequence_;
};

// False: leave. In a pipe an error ends the run; at a terminal it is shown, and the conversation goes on.
bool handle(Chat& chat, const std::string& line, bool terminal) {
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
      chat.answer(line);
    } catch (const Error& error) {
      if (!terminal) throw;
      fmt::print(stderr, "ingot: {}\n", error.what());
    }
  }
  return true;
}

int run(const ChatOptions& o) {
  Chat chat(o);
  const bool terminal = is_terminal(STDIN_FILENO);
  if (terminal) fmt::print(stderr, "/help lists what else you can type; Ctrl-D leaves.\n");
  std::string line;
  while (true) {
    if (terminal) fmt::print(stderr, "> ");
    if (!std::getline(std::cin, line) || !handle(chat, line, terminal)) return 0;
  }
}

}  // namespace

void add_chat(Command& root) {
  auto o = std::make_shared<ChatOptions>();
  o->sampling.max_tokens = 1024;
  Command verb = root.verb("chat", "Talk with a model; a line of input is a turn, also from a pipe");
  add_inference_options(verb, o->inference);
  verb.option("--system", o->system, "What the model is told before the conversation");
  add_sampling_options(verb, o->sampling);
  verb.flag("--stats", o->stats, "Report speed on stderr after each answer");
  verb.example("ingot chat Qwen/Qwen3-0.6B --format q8_0", "fetches the model and begins a conversation");
  verb.example("echo 'Name three rivers.' | ingot chat out/model -t 0", "one question, one answer");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
