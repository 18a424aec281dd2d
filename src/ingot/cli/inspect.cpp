#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/commands.h"
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
  std::string text = fmt::format("  {:>11.4g} … {:<11.4g} mean {:<11.4g} std {:<11.4g}", s.least, s.largest,
                                 s.mean, s.deviation);
  if (s.zeros > 0) text += fmt::format(" {} zeros", s.zeros);
  if (s.not_finite > 0) text += fmt::format(" {} NOT FINITE", s.not_finite);
  return text;
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
  constexpr std::size_t kWidest = 100;  // a longer name stands out of the table
  std::size_t width = 4, dtypes = 4, shapes = 4;
  for (const TensorInfo& info : source->tensors()) {
    width = std::clamp(info.name.size(), width, std::max(width, kWidest));
    dtypes = std::max(dtypes, info.stored_as.size());
    shapes = std::max(shapes, to_string(info.shape).size());
  }
  for (const TensorInfo& info : source->tensors()) {
    const auto stats = o.stats ? stats_of(*source, info) : std::nullopt;
    const std::string row = fmt::format("{:<{}}  {:<{}}  {:<{}} {:>10}{}", printable(info.name), width,
                                        printable(info.stored_as), dtypes, to_string(info.shape), shapes,
                                        human_bytes(info.bytes), stats ? describe(*stats) : "");
    fmt::print("{}\n", cut_on_terminal(row));
  }
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
