#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/shell.h"
#include "ingot/base/units.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/interrupt.h"
#include "ingot/train/language/data_preview.h"
#include "ingot/train/language/distillation_capture.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PreviewOptions {
  std::string config;
  std::vector<std::string> set;
  std::int64_t samples = 3;
  bool json = false;
};

Json as_json(const DataPreview& p) {
  Json samples = Json::array();
  for (const PreviewSample& sample : p.samples) {
    Json pieces = Json::array();
    for (const PreviewPiece& piece : sample.pieces)
      pieces.push_back({{"text", piece.text}, {"trained", piece.trained}});
    samples.push_back(
        {{"tokens", sample.tokens}, {"trained_tokens", sample.trained_tokens}, {"pieces", pieces}});
    if (!sample.role.empty()) samples.back()["role"] = sample.role;
  }
  return {{"train_samples", p.train_samples},
          {"validation_samples", p.validation_samples},
          {"tokens", p.tokens},
          {"trained_tokens", p.trained_tokens},
          {"length", {{"min", p.shortest}, {"median", p.median}, {"p90", p.nine_of_ten}, {"max", p.longest}}},
          {"duplicates", p.duplicates},
          {"too_long", p.too_long},
          {"sequences", p.sequences},
          {"sequence_len", p.sequence_length},
          {"packing_efficiency", p.efficiency},
          {"samples", samples}};
}

// What is learned in green; where there is no colour, in brackets.
void print_sample(const PreviewSample& sample, std::size_t number, bool color) {
  fmt::print("\nsample {}{}: {} tokens, {} trained\n", number,
             sample.role.empty() ? "" : fmt::format(", {}", printable(sample.role)), sample.tokens,
             sample.trained_tokens);
  for (const PreviewPiece& piece : sample.pieces) {
    const char* before = color ? (piece.trained ? "\x1b[32m" : "\x1b[2m") : (piece.trained ? "[[" : "");
    const char* behind = color ? "\x1b[0m" : (piece.trained ? "]]" : "");
    fmt::print("{}{}{}", before, printable(piece.text, LineEnds::keep), behind);
  }
  fmt::print("\n");
}

void print_preview(const DataPreview& p) {
  const bool color = wants_color(STDOUT_FILENO);
  std::size_t number = 0;
  for (const PreviewSample& sample : p.samples) {
    if (sample.role != "rejected") ++number;  // it is shown with the chosen one
    print_sample(sample, number, color);
  }
  const auto share = [](std::int64_t part, std::int64_t all) {
    return all == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(all);
  };
  fmt::print("\n  samples     {} to train, {} to validate\n", p.train_samples, p.validation_samples);
  fmt::print("  tokens      {}, {:.0f} % trained ({})\n", human_count(static_cast<double>(p.tokens)),
             share(p.trained_tokens, p.tokens), color ? "green above" : "in [[ ]] above");
  fmt::print("  lengths     {} to {} tokens, median {}, nine of ten up to {}\n", p.shortest, p.longest,
             p.median, p.nine_of_ten);
  if (p.sequences > 0)
    fmt::print("  sequences   {} of {} tokens, {:.1f} % filled\n", p.sequences, p.sequence_length,
               100 * p.efficiency);
  fmt::print("  too long    {}\n  duplicates  {}\n", p.too_long, p.duplicates);
}

int preview(const PreviewOptions& o) {
  Config file = Config::load(o.config);
  for (const std::string& assignment : o.set) file.set(assignment);
  TrainConfig config = read_train_config(file);
  fetch_from_hub(config);
  check_data_paths(config);
  const text::Tokenizer tokenizer = run_tokenizer(config);
  const DataPreview shown = preview_data(prepare_data(config, tokenizer), tokenizer, o.samples);
  if (o.json)
    fmt::print("{}\n", printable_json(dump_json(as_json(shown), 2)));
  else
    print_preview(shown);
  return 0;
}

struct CaptureOptions {
  std::string config, directory, teacher;
  std::vector<std::string> set;
  std::int64_t top_k = 64;
  bool json = false;
};

int capture(const CaptureOptions& o) {
  Config file = Config::load(o.config);
  for (const std::string& assignment : o.set) file.set(assignment);
  if (!o.teacher.empty()) {
    file.set("kd_teacher=" + o.teacher, "--teacher");
    file.set("kd_logprobs=null", "--teacher");
  }
  TrainConfig config = read_train_config(file);
  fetch_from_hub(config);
  const InterruptWatch watch;
  std::optional<ProgressBar> bar;
  const CaptureInfo info =
      capture_logprobs(config, o.directory, o.top_k, [&](std::int64_t done, std::int64_t all) {
        stop_if_interrupted();
        if (!bar)
          bar.emplace(ProgressOptions{
              .label = "capturing",
              .total = all,
              .mode = o.json ? ProgressOptions::Mode::quiet : ProgressOptions::Mode::automatic});
        bar->update(done);
      });
  bar.reset();
  if (o.json)
    fmt::print("{}\n", printable_json(dump_json(Json{{"path", o.directory},
                                                     {"teacher", info.teacher},
                                                     {"top_k", info.top_k},
                                                     {"sequences", info.sequences},
                                                     {"targets", info.targets}})));
  else
    fmt::print(
        "{}: {} tokens of {} at each of {} targets in {} sequences\n\nLearn from it:\n  ingot train {} "
        "--set kd_logprobs={}\n",
        printable(o.directory), info.top_k, printable(info.teacher), info.targets, info.sequences,
        shell_word(o.config), shell_word(o.directory));
  return 0;
}

void add_capture(Command& data) {
  auto o = std::make_shared<CaptureOptions>();
  Command command = data.subcommand(
      "capture", "Write a teacher's most probable tokens at each target of the data, to distil from");
  command.option("config", o->config, "Training configuration, as of ingot train").required();
  command.option("directory", o->directory, "The directory to write; kd_logprobs names it").required();
  command.option("--teacher", o->teacher, "The teacher, in place of the configuration's kd_teacher")
      .placeholder("MODEL");
  command.option("-k,--top-k", o->top_k, "Tokens at each target");
  command.option("--set", o->set, "Change a key, as in ingot train (may be repeated)")
      .placeholder("KEY=VALUE");
  command.flag("--json", o->json, "No progress bar; print what was written as JSON");
  command.example("ingot data capture chats.yaml out/logprobs --teacher big.gguf -k 32",
                  "then: ingot train chats.yaml --set kd_logprobs=out/logprobs");
  command.run([o] { return capture(*o); });
}

}  // namespace

void add_data(Command& root) {
  auto o = std::make_shared<PreviewOptions>();
  Command command =
      root.subcommand("data", "Look at the data of a training run, or capture a teacher's answers");
  command.example("ingot data preview train.yaml", "samples as the model reads them");
  add_capture(command);
  Command showing = command.subcommand(
      "preview",
      "Show samples as the model reads them, what of them is trained, lengths, packing and "
      "duplicates");
  showing.option("config", o->config, "Training configuration, as of ingot train").required();
  showing.option("--set", o->set, "Change a key, as in ingot train (may be repeated)")
      .placeholder("KEY=VALUE");
  showing.option("-n,--samples", o->samples, "Samples to show");
  showing.flag("--json", o->json, "Print JSON");
  showing.example("ingot data preview chats.yaml -n 5",
                  "what is trained is green, or in [[ ]] without colours");
  showing.run([o] { return preview(*o); });
}

}  // namespace ingot::cli
