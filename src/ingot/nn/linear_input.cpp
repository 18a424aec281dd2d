#include "ingot/nn/linear_input.h"

#include <utility>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

class RowFunction final : public RowSource {
 public:
  RowFunction(std::vector<Tensor> xs, std::function<Tensor(std::span<const Tensor>)> f)
      : xs_(std::move(xs)), f_(std::move(f)) {}
  Shape shape() const override { return xs_.front().shape(); }
  Tensor all() override { return f_(xs_); }
  void prepare() override {
    for (Tensor& x : xs_) x = reshape(x, {-1, x.dim(-1)});
  }
  Tensor rows(std::int64_t begin, std::int64_t end) override {
    std::vector<Tensor> some;
    some.reserve(xs_.size());
    for (const Tensor& x : xs_) some.push_back(narrow(x, 0, begin, end - begin));
    return f_(some);
  }

 private:
  std::vector<Tensor> xs_;
  std::function<Tensor(std::span<const Tensor>)> f_;
};

}  // namespace

LinearInput::LinearInput(const Tensor& x) : shape_(x.shape()), x_(x) {}

LinearInput::LinearInput(std::unique_ptr<RowSource> source)
    : shape_(source->shape()), source_(std::move(source)) {}

LinearInput::LinearInput(std::vector<Tensor> xs, std::function<Tensor(std::span<const Tensor>)> f)
    : LinearInput(std::make_unique<RowFunction>(std::move(xs), std::move(f))) {}

const Tensor& LinearInput::tensor() const {
  if (source_ != nullptr) {
    x_ = source_->all();
    source_ = nullptr;
  }
  INGOT_CHECK(x_.defined(),
              Error("an input that was quantized as it was made is not there as a tensor; layers "
                    "that share one belong in a ProjectionGroup"));
  return x_;
}

const quant::Activations& LinearInput::quantized(quant::Rounding rounding) const {
  constexpr std::int64_t kFewElements = 16384;  // stay in cache as they are
  if (activations_ != nullptr) return *activations_;
  if (source_ == nullptr || rounding == quant::Rounding::none || shape_.numel() <= kFewElements) {
    activations_ = std::make_unique<quant::Activations>(tensor());
    return *activations_;
  }
  source_->prepare();
  activations_ =
      std::make_unique<quant::Activations>(shape_, rounding, [this](std::int64_t begin, std::int64_t end) {
        const NoGrad no_grad;  // of the thread that this runs on
        return source_->rows(begin, end);
      });
  source_ = nullptr;
  return *activations_;
}

}  // namespace ingot
