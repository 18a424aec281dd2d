#include "ingot/train/language/matmul_recorder.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "ingot/autograd/engine.h"
#include "ingot/kernels/dry_run.h"
#include "ingot/kernels/watched_launch.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/param_source.h"

namespace ingot {
namespace {

using kernels::LaunchWork;

// "q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string weight_name(std::string_view parameter) {
  const std::size_t end = parameter.rfind('.');
  const std::size_t begin = end == std::string_view::npos ? end : parameter.rfind('.', end - 1);
  return std::string(parameter.substr(begin == std::string_view::npos ? 0 : begin + 1, end - begin - 1));
}

// Whose memory a matmul reads or writes: that of one parameter or, where several lie side by side, of all.
class WeightNames {
 public:
  explicit WeightNames(LanguageModel& model) {
    for (Parameter* parameter : parameters(model)) {
      if (parameter->shape().rank() != 2) continue;
      const std::string name = weight_name(parameter->name);
      add(parameter->value, name);
      if (parameter->value.grad().defined()) add(parameter->value.grad(), name);
    }
  }
  /// Empty where it is not a parameter's.
  std::string of(const View& matrix) const {
    const auto* const begin = static_cast<const std::byte*>(matrix.data);
    const std::byte* const end = begin + matrix.numel() * static_cast<std::int64_t>(byte_size(matrix.dtype));
    std::string names;
    for (auto it = places_.lower_bound(begin); it != places_.end() && it->first < end; ++it)
      names += (names.empty() ? "" : ", ") + it->second;
    return names;
  }

 private:
  void add(const Tensor& matrix, const std::string& name) {
    places_[static_cast<const std::byte*>(matrix.view().data)] = name;
  }
  std::map<const std::byte*, std::string> places_;
};

const View* find(const LaunchWork& work, std::string_view name) {
  const auto operands = work.operands();
  const auto found = std::ranges::find(operands, name, &LaunchWork::Operand::name);
  return found == operands.end() ? nullptr : found->view;
}

bool is_transposed(const View& matrix) { return matrix.stride(-1) != 1 && matrix.dim(-1) != 1; }

class MatmulRecorder final : public kernels::LaunchObserver {
 public:
  explicit MatmulRecorder(LanguageModel& model) : names_(model) {}

  bool launching(const kernels::Launch& launch) override {
    const std::string_view kernel = launch.kernel;
    if (kernel == "linear_parameters_backward") {
      record_parameters(launch.work);
    } else if (kernel.starts_with("gemm")) {
      record(launch.work, kernel != "gemm");
    }
    return true;
  }
  std::vector<StepMatmul> take() { return std::move(matmuls_); }

 private:
  void record_parameters(const LaunchWork& work) {
    const View &x = *find(work, "x"), &dweight = *find(work, "dweight");
    push({.kind = StepMatmul::Kind::weight_gradient,
          .rows = x.numel() / x.dim(-1),
          .out = dweight.dim(0),
          .in = dweight.dim(1),
          .bias = true,
          .accumulate = work.adds},
         dweight);
  }
  void record(const LaunchWork& work, bool gelu) {
    const View &a = *find(work, "a"), &b = *find(work, "b"), &c = *find(work, "c");
    StepMatmul matmul{.gelu = gelu, .accumulate = work.adds};
    const std::int64_t wide = a.dim(-1), rows = a.numel() / wide;
    if (is_transposed(a)) {
      matmul.kind = StepMatmul::Kind::weight_gradient;
      matmul.rows = wide;
      matmul.out = c.dim(-2);
      matmul.in = c.dim(-1);
      return push(matmul, c);
    }
    matmul.rows = rows;
    matmul.kind = is_transposed(b) ? StepMatmul::Kind::forward : StepMatmul::Kind::input_gradient;
    const bool forward = matmul.kind == StepMatmul::Kind::forward;
    matmul.in = forward ? wide : c.dim(-1);
    matmul.out = forward ? c.dim(-1) : wide;
    matmul.bias = find(work, "bias") != nullptr;
    push(matmul, b);
  }
  // Those of activations alone belong to attention. The loss may copy the head's matrix.
  void push(StepMatmul matmul, const View& weight) {
    const Scope* scope = Scope::innermost();
    const bool is_head = scope != nullptr && scope->name().starts_with("linear_cross_entropy");
    const std::string name = is_head ? "head" : names_.of(weight);
    if (name.empty()) return;
    matmul.count = 1;
    matmul.weights = {name};
    matmuls_.push_back(std::move(matmul));
  }

  WeightNames names_;
  std::vector<StepMatmul> matmuls_;
};

}  // namespace

std::vector<StepMatmul> matmuls_of_step(const LanguageConfig& config, std::int64_t tokens, Device device) {
  const kernels::DryRun run(kernels::DeviceProfile::of(device));
  MetaSource shapes(config.dtype);
  LanguageModel model(config, shapes);
  const DecoderInput input{.tokens = Tensor::empty({1, tokens}, DType::i32, kMeta),
                           .positions = Tensor::empty({1, tokens}, DType::i32, kMeta),
                           .doc_start = {},
                           .length = std::min(tokens, config.max_position_embeddings)};
  backward(model.loss(input, input.tokens));
  MatmulRecorder recorder(model);
  backward(model.loss(input, input.tokens));
  return recorder.take();
}

}  // namespace ingot
