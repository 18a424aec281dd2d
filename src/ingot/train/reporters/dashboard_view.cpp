#include "ingot/train/reporters/dashboard_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "ingot/base/progress.h"
#include "ingot/base/units.h"

namespace ingot {
namespace {

constexpr int kLabel = 9;  // columns of a curve's labels
constexpr int kMostCurveRows = 14, kLeastCurveRows = 3;

// One cell has two columns and four rows of dots, which U+2800's low bits are.
std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

struct ValueRange {
  double low = 0, high = 0;
};
ValueRange range_of(std::span<const double> values) {
  ValueRange range{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    range = {std::min(range.low, value), std::max(range.high, value)};
  }
  return range.low <= range.high ? range : ValueRange{};
}

// As many values as there are dots in a row: means of as many steps each. NaN where no value is finite.
std::vector<double> resampled(std::span<const double> values, std::size_t count) {
  if (values.size() <= count) return {values.begin(), values.end()};
  std::vector<double> means(count, std::nan(""));
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0, finite = 0;
    for (std::size_t j = i * values.size() / count; j < (i + 1) * values.size() / count; ++j) {
      if (!std::isfinite(values[j])) continue;
      sum += values[j];
      finite += 1;
    }
    if (finite > 0) means[i] = sum / finite;
  }
  return means;
}

class Canvas {
 public:
  Canvas(int columns, int rows)
      : columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns * rows)) {}
  void set(int x, int y) {
    static constexpr std::array<std::array<unsigned, 2>, 4> kDots{
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    if (x < 0 || y < 0 || x >= 2 * columns_ || y >= 4 * rows_) return;
    cells_[static_cast<std::size_t>(y / 4 * columns_ + x / 2)] |=
        kDots[static_cast<std::size_t>(y % 4)][static_cast<std::size_t>(x % 2)];
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> lines(static_cast<std::size_t>(rows_));
    for (std::size_t i = 0; i < cells_.size(); ++i)
      lines[i / static_cast<std::size_t>(columns_)] += braille(cells_[i]);
    return lines;
  }

 private:
  int columns_, rows_;
  std::vector<unsigned> cells_;
};

class DashboardPage {
 public:
  DashboardPage(const DashboardState& state, int columns, int rows, bool color)
      : s_(state), columns_(std::max(columns, 20)), rows_(std::max(rows, 4)), color_(color) {}

  std::vector<std::string> lines() {
    add(painted("1", s_.title) + (s_.subtitle.empty() ? "" : painted("2", "  " + s_.subtitle)));
    add(progress_line());
    add(loss_line());
    if (!s_.evaluations.empty()) add(evaluation_line());
    add(speed_line());
    std::vector<std::string> below;
    if (!s_.last.layer_norms.empty()) below.push_back(layers_line());
    if (!s_.memory.empty()) below.push_back(memory_line());
    if (!s_.note.empty()) below.push_back(painted("2", s_.note));
    const int left = rows_ - static_cast<int>(lines_.size() + below.size()) - 1;  // 1: the curve's steps
    if (left >= kLeastCurveRows && s_.losses.size() > 1) add_curve(std::min(left, kMostCurveRows));
    for (const std::string& line : below) add(line);
    if (static_cast<int>(lines_.size()) > rows_) lines_.resize(static_cast<std::size_t>(rows_));
    return std::move(lines_);
  }

 private:
  std::string painted(std::string_view code, std::string_view text) const {
    return color_ && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }
  void add(const std::string& line) {
    std::string fitted(fit_width(line, columns_));
    if (color_ && fitted.size() < line.size()) fitted += "\x1b[0m";
    lines_.push_back(std::move(fitted));
  }

  std::string progress_line() const {
    const auto done = static_cast<double>(s_.last.step), all = static_cast<double>(s_.total_steps);
    const double part = all > 0 ? std::clamp(done / all, 0.0, 1.0) : 0;
    const std::string head =
        fmt::format("step {}/{}  {:3.0f} %  ", s_.last.step, s_.total_steps, std::floor(100 * part));
    const std::string tail = fmt::format("  {}, ETA {}", human_duration(s_.seconds),
                                         s_.seconds_left < 0 ? "?" : human_duration(s_.seconds_left));
    const int cells = std::min(60, columns_ - display_width(head) - display_width(tail));
    if (cells < 6) return head + tail;
    const int full = static_cast<int>(part * cells);
    std::string filled, rest;
    for (int i = 0; i < cells; ++i) (i < full ? filled : rest) += i < full ? "█" : "·";
    return head + painted("36", filled) + painted("2", rest) + tail;
  }

  std::string loss_line() const {
    return fmt::format("loss {} · gradient norm {:.3g} · learning rate {:.3g} · epoch {:.2f}",
                       painted("1", fmt::format("{:.4f}", s_.last.loss)), s_.last.grad_norm,
                       s_.last.learning_rate, s_.last.epoch);
  }

  std::string evaluation_line() const {
    std::string text;
    for (const EvalRecord& record : s_.evaluations)
      text += fmt::format("{}{}{} {:.4f} at {}", text.empty() ? "" : " · ", record.best ? "best " : "",
                          record.ema ? "averaged validation" : "validation", record.loss, record.step);
    return text;
  }

  std::string speed_line() const {
    std::string text;
    if (s_.last.tokens_per_second > 0)
      text += fmt::format("{} tokens/s · ", human_count(s_.last.tokens_per_second));
    if (s_.last.flops > 0) text += fmt::format("{:.0f} GFLOP/s", s_.last.flops * 1e-9);
    if (s_.last.flops > 0 && s_.matmul_flops > 0)
      text += fmt::format(" ({:.0f} % of a matmul's)", 100 * s_.last.flops / s_.matmul_flops);
    return text + fmt::format("{}{} a step", s_.last.flops > 0 ? " · " : "", human_duration(s_.last.seconds));
  }

  std::string layers_line() const {
    const auto& norms = s_.last.layer_norms;
    const auto most = std::ranges::max_element(norms);
    const std::string head = "gradient by layer ";
    const std::string tail =
        fmt::format(" most {:.3g} in {}", *most, s_.layers[static_cast<std::size_t>(most - norms.begin())]);
    const int cells = std::max(1, columns_ - display_width(head) - display_width(tail));
    return head + painted("36", bar_row(norms, cells)) + tail;
  }

  std::string memory_line() const {
    std::size_t all = 0;
    std::string parts;
    for (const auto& [tag, bytes] : s_.memory) {
      all += bytes;
      parts += fmt::format(" · {} {}", tag, human_bytes(bytes));
    }
    return fmt::format("memory {}, peak {}{}", human_bytes(all), human_bytes(s_.memory_peak), parts);
  }

  void add_curve(int rows) {
    const int width = columns_ - kLabel;
    const ValueRange range = range_of(resampled(s_.losses, static_cast<std::size_t>(2 * width)));
    const std::vector<std::string> curve = braille_curve(s_.losses, width, rows);
    for (int row = 0; row < rows; ++row) {
      const bool first = row == 0, last = row == rows - 1;
      const std::string label = first || last ? fmt::format("{:>7.3f}", first ? range.high : range.low) : "";
      add(painted("2", fmt::format("{:>7} │", label)) + painted("32", curve[static_cast<std::size_t>(row)]));
    }
    const std::string from = std::to_string(s_.first_step + 1), to = std::to_string(s_.last.step);
    const int drawn = std::min(width, static_cast<int>((s_.losses.size() + 1) / 2));
    const int gap = std::max(1, drawn - static_cast<int>(from.size() + to.size()));
    add(painted("2", fmt::format("{:>7} └{}{:{}}{}", "step", from, "", gap, to)));
  }

  const DashboardState& s_;
  int columns_, rows_;
  bool color_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> braille_curve(std::span<const double> values, int columns, int rows) {
  Canvas canvas(columns, rows);
  const std::vector<double> points = resampled(values, static_cast<std::size_t>(2 * columns));
  const ValueRange range = range_of(points);
  const int lowest = 4 * rows - 1;
  int before = -1;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i])) {
      before = -1;
      continue;
    }
    const double height = range.high > range.low ? (points[i] - range.low) / (range.high - range.low) : 0.5;
    const int y = lowest - static_cast<int>(std::lround(height * lowest));
    const int from = before < 0 ? y : std::min(before, y), to = std::max(before, y);
    for (int dot = from; dot <= to; ++dot) canvas.set(static_cast<int>(i), dot);
    before = y;
  }
  return canvas.lines();
}

std::string bar_row(std::span<const float> values, int columns) {
  static constexpr std::array<std::string_view, 8> kBars{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t count = std::min(values.size(), static_cast<std::size_t>(std::max(columns, 1)));
  std::vector<double> logarithms;
  for (std::size_t i = 0; i < count; ++i) {
    const auto part = values.subspan(i * values.size() / count,
                                     (i + 1) * values.size() / count - i * values.size() / count);
    logarithms.push_back(std::log(static_cast<double>(*std::ranges::max_element(part))));  // of 0: -infinity
  }
  const ValueRange range = range_of(logarithms);
  std::string row;
  for (const double value : logarithms) {
    const double height = range.high > range.low ? (value - range.low) / (range.high - range.low) : 0.5;
    row += std::isfinite(value) ? kBars[static_cast<std::size_t>(std::lround(7 * height))] : "·";
  }
  return row;
}

std::vector<std::string> dashboard_lines(const DashboardState& state, int columns, int rows, bool color) {
  return DashboardPage(state, columns, rows, color).lines();
}

}  // namespace ingot
