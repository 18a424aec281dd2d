#pragma once

#include <cmath>
#include <vector>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/nn/linear.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/view.h"
#include "ingot/train/task.h"

namespace ingot::test {

/// Two linears with a tanh between them.
struct Mlp {
  explicit Mlp(const ParamSource& source)
      : up(source.scope("up"), {.in = 2, .out = 8}), down(source.scope("down"), {.in = 8, .out = 1}) {}
  Tensor operator()(const Tensor& x) const { return down(tanh(up(x))); }
  void visit(ParamVisitor& v) {
    v("up", up);
    v("down", down);
  }
  Linear up, down;
};

/// What a new kind of training costs: an MLP that learns y = x0 * x1 from a table of 64 rows, 48 to train on.
class TableTask : public TrainTask {
 public:
  struct Options {
    double learning_rate = 0.05, ema_decay = 0;
    bool validates = true;
    std::int64_t garbage_step = 0,
                 garbage_steps = 1;         ///< from which on so many have wrong targets; 0: none has
    std::int64_t earlier_garbage_step = 0;  ///< one more
  };
  explicit TableTask(const Options& options)
      : options_(options),
        mlp_(source_),
        optimizer_(mlp_, {.learning_rate = options.learning_rate}, schedule::Constant{}, options.ema_decay) {
    std::vector<float> x, y;
    for (int row = 0; row < 64; ++row) {
      x.insert(x.end(), {static_cast<float>(row % 8) / 4 - 1, static_cast<float>(row * 5 % 64) / 32 - 1});
      y.push_back(x[x.size() - 2] * x.back());
    }
    x_ = Tensor::from(x, {64, 2});
    y_ = Tensor::from(y, {64, 1});
  }

  ModuleRef model() override { return mlp_; }
  TrainOptimizer& optimizer() override { return optimizer_; }

  StepWork gradients(std::int64_t step, const StopCheck& /*stops*/) override {
    const std::int64_t first = step % 6 * 8;
    const Tensor loss = mean_loss(first, first + 8, is_garbage(step + 1) ? 4 : 0);
    backward(loss);
    return {.metrics = loss.detach()};
  }

  void read(std::span<const float> metrics, StepRecord& record) override {
    TrainTask::read(metrics, record);
    record.values = {{"root loss", std::sqrt(record.loss)}};
  }

  std::optional<double> evaluate(const StopCheck& stops) override {
    check_stop(stops);
    const NoGrad no_grad;
    return options_.validates ? std::optional<double>(mean_loss(48, 64).item()) : std::nullopt;
  }
  void read_evaluation(EvalRecord& record) const override {
    record.values = {{"root loss", std::sqrt(record.loss)}, {"rows", 16}};
  }

  std::string settings() const override {
    return options_.ema_decay > 0 ? R"({"ema": true})" : R"({"ema": false})";
  }

 private:
  bool is_garbage(std::int64_t step) const {
    const std::int64_t first = options_.garbage_step;
    return step == options_.earlier_garbage_step ||
           (first > 0 && step >= first && step < first + options_.garbage_steps);
  }
  Tensor mean_loss(std::int64_t first, std::int64_t last, double off = 0) const {
    const Tensor y = slice(y_, 0, first, last);
    return mse_loss(mlp_(slice(x_, 0, first, last)), off == 0 ? y : y + off);
  }

  Options options_;
  InitSource source_{7};
  Mlp mlp_;
  TrainOptimizer optimizer_;
  Tensor x_, y_;
};

}  // namespace ingot::test
