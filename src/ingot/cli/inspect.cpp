#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/units.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/help_page.h"
#include "ingot/cli/text_table.h"
#include "ingot/hub/resolve.h"
#include "ingot/models/registry.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/raw.h"

namespace ingot::cli {
namespace {

struct InspectOptions {
  std::string path;
  std::vector<std::string> raw;
  bool json = false, stats = false;
};

/// What the values of a tensor are like; not-a-number and infinite ones are counted and left out of the rest.
struct Stats {
  double least = 0, largest = 0, mean = 0, deviation = 0;
  std::int64_t zeros = 0, not_finite = 0;
};

std::optional<Stats> stats_of(const WeightSource& source, const TensorInfo& info) {
  if (!info.dtype || info.numel() == 0) return std::nullopt;
  const NoGrad no_grad;
  const Tensor values = contiguous(to(source.load_tensor(info.name), DType::f32));
  const std::span<const float> all(values.data<float>(), static_cast<std::size_t>(values.numel()));
  Stats stats{.least = HUGE_VAL, .largest = -HUGE_VAL};
  double sum = 0, squares = 0;
  for (const float value : all) {
    if (!std::isfinite(value)) {
      ++stats.not_finite;
      continue;
    }
    const auto x = static_cast<double>(value);
    stats.least = std::min(stats.least, x);
    stats.largest = std::max(stats.largest, x);
    stats.zeros += x == 0 ? 1 : 0;
    sum += x;
    squares += x * x;
  }
  const auto count = static_cast<double>(info.numel() - stats.not_finite);
  if (count == 0) return Stats{.not_finite = stats.not_finite};
  stats.mean = sum / count;
  stats.deviation = std::sqrt(std::max(0.0, squares / count - stats.mean * stats.mean));
  return stats;
}

std::string describe(const Stats& s) {
  std::string text = fmt::format("{:>11.4g} … {:<11.4g} mean {:<11.4g} std {:<11.4g}", s.least, s.largest,
                                 s.mean, s.deviation);
  if (s.zeros > 0) text += fmt::format(" {} zeros", s.zeros);
  if (s.not_finite > 0) text += fmt::format(" {} NOT FINITE", s.not_finite);
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

/// Of the columns of a table; what is longer stands out of it.
struct Widths {
  std::size_t name = 4, dtype = 4, shape = 4;
};

Widths widths_of(const WeightSource& source) {
  constexpr std::size_t kWidestName = 100, kLeastName = 20, kWidestDtype = 16, kWidestShape = 32;
  Widths widths;
  for (const TensorInfo& info : source.tensors()) {
    widths.name = std::max(widths.name, std::min(info.name.size(), kWidestName));
    widths.dtype = std::max(widths.dtype, std::min(info.stored_as.size(), kWidestDtype));
    widths.shape = std::max(widths.shape, std::min(to_string(info.shape).size(), kWidestShape));
  }
  if (is_terminal(STDOUT_FILENO)) {
    const auto columns = static_cast<std::size_t>(terminal_columns(STDOUT_FILENO));
    const std::size_t others = widths.dtype + widths.shape + 15;  // spaces and bytes
    widths.name = std::min(widths.name, std::max(kLeastName, columns - std::min(columns, others)));
  }
  return widths;
}

/// One line. On a terminal what does not fit goes below the name, so that a long name does not hide the rest.
void print_tensor(const TensorInfo& info, const Widths& widths, const std::string& stats) {
  const std::string name = printable(info.name),
                    rest = fmt::format("  {:<{}}  {:<{}} {:>10}", printable(info.stored_as), widths.dtype,
                                       to_string(info.shape), widths.shape, human_bytes(info.bytes)),
                    row = fmt::format("{:<{}}{}", name, widths.name, rest),
                    values = stats.empty() ? "" : "  " + stats;
  const auto fits = [](const std::string& line) {
    return !is_terminal(STDOUT_FILENO) || display_width(line) <= terminal_columns(STDOUT_FILENO);
  };
  if (fits(row + values)) {
    fmt::print("{}\n", row + values);
    return;
  }
  if (fits(row)) {
    fmt::print("{}\n", row);
  } else {
    fmt::print("{}\n{}\n", cut_on_terminal(name), cut_on_terminal("  " + rest));
  }
  if (!stats.empty()) fmt::print("    {}\n", wrap_on_terminal(stats, 4, STDOUT_FILENO));
}

void print_tensors(const WeightSource& source, bool with_stats) {
  const Widths widths = widths_of(source);
  for (const TensorInfo& info : source.tensors()) {
    const auto stats = with_stats ? stats_of(source, info) : std::nullopt;
    print_tensor(info, widths, stats ? describe(*stats) : "");
  }
}

// Whether the tensors are those of the model that config.json describes.
void print_check(const ArchitectureReport& report) {
  if (report.fits()) {
    fmt::print("fits its config.json: {}\n", fmt::join(report.variants, ", "));
    return;
  }
  std::string message = "does not fit its config.json";
  append_list(message, "missing", report.missing);
  append_list(message, "of another shape", report.misshaped);
  append_list(message, "not expected", report.unexpected);
  fmt::print("{}\n", printable(message, LineEnds::indented));
}

int run(InspectOptions o) {
  if (!hub::is_remote_safetensors(o.path)) o.path = hub::resolve_model(o.path);
  const std::shared_ptr<const WeightSource> source =
      o.raw.empty() ? hub::open_weights(o.path) : open_raw(map_blob(o.path), parse_raw_tensors(o.raw));
  std::int64_t elements = 0;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TensorInfo& info : source->tensors()) {
    elements += info.numel();
    list.push_back({{"name", info.name},
                    {"shape", info.shape},
                    {"dtype", info.stored_as},
                    {"bytes", info.bytes},
                    {"file", std::filesystem::path(info.file).filename().string()},
                    {"offset", info.offset}});
    if (!o.stats || !o.json) continue;
    if (const auto s = stats_of(*source, info)) {
      list.back()["stats"] = {{"min", s->least},     {"max", s->largest}, {"mean", s->mean},
                              {"std", s->deviation}, {"zeros", s->zeros}, {"not_finite", s->not_finite}};
    }
  }
  const std::string architecture = describe_model(o.path);
  const std::optional<ArchitectureReport> report = check_model(o.path, source);
  if (o.json) {
    nlohmann::ordered_json json{
        {"path", o.path},       {"format", source->format()},     {"metadata", source->metadata()},
        {"elements", elements}, {"bytes", source->total_bytes()}, {"tensors", list}};
    if (report.has_value()) {
      json["architecture"] = {{"family", report->family},         {"variants", report->variants},
                              {"missing", report->missing},       {"misshaped", report->misshaped},
                              {"unexpected", report->unexpected}, {"fits", report->fits()}};
    }
    fmt::print("{}\n", printable_json(dump_json(json, 2)));
    return 0;
  }
  print_tensors(*source, o.stats);
  if (!architecture.empty()) fmt::print("\n{}\n", printable(architecture, LineEnds::indented));
  fmt::print("{}{}: {} tensors, {} elements, {}\n", architecture.empty() ? "\n" : "", source->format(),
             source->tensors().size(), human_count(static_cast<double>(elements)),
             human_bytes(source->total_bytes()));
  if (report.has_value()) print_check(*report);
  return 0;
}

}  // namespace

void add_inspect(Command& root) {
  auto o = std::make_shared<InspectOptions>();
  Command command =
      root.subcommand("inspect", "List what a model file or directory holds: names, shapes, dtypes, sizes");
  command
      .option("path", o->path,
              "A model directory, or a file of weights: safetensors, GGUF, PyTorch, NumPy, Keras, "
              "TensorFlow")
      .required();
  command.option("--raw", o->raw,
                 "What a file without a header holds, as NAME=f32[2,3]@OFFSET (may be repeated)");
  command.flag("--stats", o->stats, "Read the values too: range, mean, deviation, zeros, what is not finite");
  command.flag("--json", o->json, "Print JSON");
  command.example("ingot inspect out/model", "every tensor, then the architecture and the sum");
  command.example("ingot inspect values.bin --raw 'f32[-1,768]' --stats", "a file without a header");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
