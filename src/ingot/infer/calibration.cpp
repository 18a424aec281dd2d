#include "ingot/infer/calibration.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/language/weight_map.h"
#include "ingot/nn/input_observer.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

// Sums in double: a column of a long text has millions of squares.
struct Sums {
  std::vector<double> squares, rows;
};

class InputSums {
 public:
  void add(std::string_view name, const Tensor& x, const Tensor& offsets) {
    const Tensor rows = reshape(contiguous(to(x, DType::f32)), {-1, x.dim(-1)});
    Sums& sums = sums_[std::string(name)];
    if (!offsets.defined()) return add_matrix(rows, 0, 1, sums);
    const std::vector<std::int64_t> begins = to(offsets, kCpu).to_vector<std::int64_t>();
    for (std::size_t e = 0; e + 1 < begins.size(); ++e)
      add_matrix(narrow(rows, 0, begins[e], begins[e + 1] - begins[e]), e, begins.size() - 1, sums);
  }

  const std::map<std::string, Sums>& all() const { return sums_; }

 private:
  static void add_matrix(const Tensor& rows, std::size_t matrix, std::size_t matrices, Sums& sums) {
    const auto cols = static_cast<std::size_t>(rows.dim(1));
    sums.rows.resize(matrices);
    sums.squares.resize(matrices * cols);
    if (rows.dim(0) == 0) return;
    sums.rows[matrix] += static_cast<double>(rows.dim(0));
    const std::vector<float> squares = to(sum(rows * rows, {0}), kCpu).to_vector<float>();
    for (std::size_t c = 0; c < cols; ++c) sums.squares[matrix * cols + c] += squares[c];
  }

  std::map<std::string, Sums> sums_;
};

std::vector<float> to_floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

void add_entries(const LanguageConfig& config, const InputSums& sums, ImportanceMatrix& matrix) {
  for (const auto& [parameter, of] : sums.all()) {
    const std::string name = gguf_name_of(config, parameter);
    INGOT_CHECK(!name.empty(),
                InvalidConfig("model", fmt::format("GGUF files have no tensor for '{}' of {}: an "
                                                   "importance matrix cannot name it",
                                                   parameter, config.model_type)));
    matrix.entries.try_emplace(name, ImportanceMatrix::Entry{to_floats(of.squares), to_floats(of.rows)});
  }
}

void check_window(const LanguageModel& model, std::span<const std::int32_t> tokens,
                  const CalibrationOptions& options) {
  const std::int64_t window = options.window, context = model.config.max_position_embeddings;
  INGOT_CHECK(
      window > 0 && window <= context,
      InvalidConfig("window", fmt::format("is {}; this model sees up to {} tokens", window, context)));
  const auto count = static_cast<std::int64_t>(tokens.size());
  INGOT_CHECK(
      count >= window,
      DimensionMismatch(fmt::format(
          "the text has {} tokens; a window takes {}: give more text, or a smaller window", count, window)));
}

// Returns the number of windows.
std::uint32_t run_windows(const LanguageModel& model, std::span<const std::int32_t> tokens,
                          const CalibrationOptions& options,
                          const std::function<void(std::int64_t)>& on_progress) {
  const NoGrad no_grad;
  const std::int64_t window = options.window, count = static_cast<std::int64_t>(tokens.size());
  std::uint32_t windows = 0;
  for (std::int64_t at = 0; at + window <= count; at += window, ++windows) {
    const auto ids = tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(window));
    const Tensor row = Tensor::from(std::vector<std::int64_t>(ids.begin(), ids.end()), {1, window});
    DecoderInput input;
    input.tokens = to(row, model.device());
    const Tensor states = model.hidden(input);
    constexpr std::int64_t kRows = 128;  // logits at once
    for (std::int64_t first = 0; first < window; first += kRows)
      model.logits(narrow(states, 1, first, std::min(kRows, window - first)));
    if (on_progress) on_progress(at + window);
  }
  return windows;
}

}  // namespace

ImportanceMatrix measure_importance(const LanguageModel& model, std::span<const std::int32_t> tokens,
                                    const CalibrationOptions& options,
                                    const std::function<void(std::int64_t)>& on_progress) {
  check_window(model, tokens, options);
  InputSums sums;
  ImportanceMatrix matrix;
  matrix.chunk_tokens = static_cast<std::uint32_t>(options.window);
  {
    const InputObserver observer(
        [&](std::string_view name, const Tensor& x, const Tensor& offsets) { sums.add(name, x, offsets); });
    matrix.chunks = run_windows(model, tokens, options, on_progress);
  }
  add_entries(model.config, sums, matrix);
  return matrix;
}

LayerProducts::LayerProducts(const LanguageModel& model, std::vector<std::int32_t> tokens,
                             CalibrationOptions options, std::uint64_t memory)
    : model_(model), tokens_(std::move(tokens)), options_(options), memory_(memory) {
  check_window(model_, tokens_, options_);
  // One window tells which layers there are, in the order of their use.
  const WeightMap map = language_weight_map(model_.config);
  const InputObserver observer([&](std::string_view name, const Tensor&, const Tensor& offsets) {
    if (offsets.defined()) return;
    for (const std::string& theirs : sources_of(map.rule_for(std::string(name))))
      by_theirs_.try_emplace(theirs, layers_.size());
    if (layers_.empty() || layers_.back() != name)
      layers_.emplace_back(name);  // the head: rows some at a time
  });
  run_windows(model_, std::span(tokens_).first(static_cast<std::size_t>(options_.window)), options_, {});
}

Tensor LayerProducts::of(const std::string& weight) {
  const auto found = by_theirs_.find(weight);
  if (found == by_theirs_.end()) return {};
  const std::string& name = layers_[found->second];
  if (!products_.contains(name)) measure_from(found->second);
  return products_.at(name);
}

void LayerProducts::measure_from(std::size_t layer) {
  products_.clear();
  std::uint64_t bytes = 0;
  std::size_t next = layer;
  const InputObserver observer([&](std::string_view name, const Tensor& x, const Tensor& offsets) {
    if (offsets.defined()) return;
    const auto cols = static_cast<std::uint64_t>(x.dim(-1));
    // The first window takes one layer after the other, as long as memory allows.
    if (next < layers_.size() && name == layers_[next] &&
        (next == layer || bytes + 4 * cols * cols <= memory_)) {
      bytes += 4 * cols * cols;
      products_[std::string(name)] = {};
      ++next;
    }
    const auto found = products_.find(std::string(name));
    if (found == products_.end()) return;
    const Tensor rows = reshape(contiguous(to(x, DType::f32)), {-1, x.dim(-1)});
    const Tensor product = to(matmul(transpose(rows, 0, 1), rows), kCpu);
    found->second = found->second.defined() ? found->second + product : product;
  });
  run_windows(model_, tokens_, options_, {});
}

}  // namespace ingot::infer
