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

}  // namespace

ImportanceMatrix measure_importance(const LanguageModel& model, std::span<const std::int32_t> tokens,
                                    const CalibrationOptions& options,
                                    const std::function<void(std::int64_t)>& on_progress) {
  const std::int64_t window = options.window, context = model.config.max_position_embeddings;
  INGOT_CHECK(
      window > 0 && window <= context,
      InvalidConfig("window", fmt::format("is {}; this model sees up to {} tokens", window, context)));
  const auto count = static_cast<std::int64_t>(tokens.size());
  INGOT_CHECK(count >= window, DimensionMismatch(fmt::format(
                                   "the text has {} tokens; a window takes {}: give more text, or a smaller "
                                   "window",
                                   count, window)));
  const NoGrad no_grad;
  InputSums sums;
  ImportanceMatrix matrix{
      .entries = {}, .datasets = {}, .chunks = 0, .chunk_tokens = static_cast<std::uint32_t>(window)};
  const InputObserver observer(
      [&](std::string_view name, const Tensor& x, const Tensor& offsets) { sums.add(name, x, offsets); });
  for (std::int64_t at = 0; at + window <= count; at += window, ++matrix.chunks) {
    const std::span<const std::int32_t> ids =
        tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(window));
    DecoderInput input;
    input.tokens =
        to(Tensor::from(std::vector<std::int64_t>(ids.begin(), ids.end()), {1, window}), model.device());
    const Tensor states = model.hidden(input);
    constexpr std::int64_t kRows = 128;  // logits at once
    for (std::int64_t row = 0; row < window; row += kRows)
      model.logits(narrow(states, 1, row, std::min(kRows, window - row)));
    if (on_progress) on_progress(at + window);
  }
  add_entries(model.config, sums, matrix);
  return matrix;
}

}  // namespace ingot::infer
