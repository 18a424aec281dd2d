#include <charconv>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/printable.h"
#include "ingot/cli/commands.h"
#include "ingot/train/step_origins.h"

namespace ingot::cli {
namespace {

struct WhyOptions {
  std::string run;
  std::vector<std::string> words;
  std::int64_t depth = 3;
};

// What stands in a list of words: "step=20", and names.
struct WhyQuestion {
  std::optional<std::int64_t> step;
  std::vector<std::string> names;
};

WhyQuestion question_of(const std::vector<std::string>& words) {
  constexpr std::string_view kStep = "step=";
  WhyQuestion question;
  for (const std::string& word : words) {
    if (!word.starts_with(kStep)) {
      question.names.push_back(word);
      continue;
    }
    std::int64_t step = 0;
    const char* end = word.data() + word.size();
    const auto [at, problem] = std::from_chars(word.data() + kStep.size(), end, step);
    INGOT_CHECK(problem == std::errc{} && at == end && step > 0,
                InvalidConfig("step", fmt::format("'{}' is not a step; write step=20", word)));
    question.step = step;
  }
  return question;
}

void print_anomaly(const StepOrigins& origins, int depth) {
  const Origin& last = *origins.ops.back();
  fmt::print("Step {}: the first values that are not finite\n\n{}\n", origins.step,
             printable(describe(last, 1), LineEnds::indented));
  for (std::size_t i = 0; i < last.inputs.size(); ++i)
    if (last.inputs[i] != nullptr)
      fmt::print("\ninput {}:\n{}\n", i, printable(describe(*last.inputs[i], depth), LineEnds::indented));
}

// A tensor's line, and below it those that led there.
void print_numbered(const Origin& op, int depth) {
  std::string text = describe(op, depth);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.insert(++at, 8, ' ');
  fmt::print("{:>6}  {}\n", op.number, printable(text, LineEnds::indented));
}

void print_list(const StepOrigins& origins) {
  for (const auto& op : origins.ops) print_numbered(*op, 1);
}

// What the run's directory can tell of, where the question names no step.
int print_overview(const WhyOptions& o, const std::optional<StepOrigins>& anomaly) {
  const std::vector<std::int64_t> steps = recorded_steps(o.run);
  INGOT_CHECK(anomaly.has_value() || !steps.empty(),
              InvalidConfig(o.run,
                            "recorded nothing: train with detect_anomaly: true, to find the op that made a "
                            "NaN, or with record_origins: N, to keep every Nth step"));
  if (anomaly.has_value()) print_anomaly(*anomaly, static_cast<int>(o.depth));
  if (!steps.empty())
    fmt::print("{}Recorded steps: {}\n", anomaly.has_value() ? "\n" : "", fmt::join(steps, ", "));
  return 0;
}

int run(const WhyOptions& o) {
  INGOT_CHECK(o.depth >= 1 && o.depth <= 1000,
              InvalidConfig("--depth", fmt::format("must be from 1 to 1000, got {}", o.depth)));
  INGOT_CHECK(std::filesystem::is_directory(o.run),
              InvalidConfig(o.run, "is not a directory; name the output_dir of a training run"));
  const WhyQuestion question = question_of(o.words);
  const std::optional<StepOrigins> anomaly = read_anomaly(o.run);
  if (!question.step.has_value() && question.names.empty()) return print_overview(o, anomaly);
  const bool of_anomaly = anomaly.has_value() && question.step.value_or(anomaly->step) == anomaly->step;
  INGOT_CHECK(of_anomaly || question.step.has_value(),
              InvalidConfig("step", "is missing: write step=20 beside the name"));
  const StepOrigins origins = of_anomaly ? *anomaly : read_step_origins(o.run, *question.step);
  if (question.names.empty()) {
    print_list(origins);
    return 0;
  }
  for (const std::string& name : question.names) {
    const auto found = origins.find(name);
    INGOT_CHECK(
        !found.empty(),
        InvalidConfig(name, fmt::format("is neither a module, an op nor a number of step {}; without it, "
                                        "ingot why lists them all",
                                        origins.step)));
    for (const auto& op : found) print_numbered(*op, static_cast<int>(o.depth));
  }
  return 0;
}

}  // namespace

void add_why(Command& root) {
  auto o = std::make_shared<WhyOptions>();
  Command command = root.subcommand(
      "why", "Tell which op of which module made a tensor, or a NaN, in a step of a training run");
  command.option("run", o->run, "Output directory of a training run").required();
  command.option("words", o->words,
                 "step=N, and modules, ops or numbers to tell of; nothing: what detect_anomaly found");
  command.option("--depth", o->depth, "Ops to go back from each tensor");
  command.example("ingot why out/run", "what made the NaN that ended a run under detect_anomaly: true");
  command.example("ingot why out/run step=20", "every tensor of a step that record_origins kept");
  command.example("ingot why out/run step=20 model.layers.3.mlp --depth 5",
                  "those of a module, and what led there");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
