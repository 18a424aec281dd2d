#include "ingot/models/language/altup.h"

#include <limits>

#include "ingot/models/language/decoder_init.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

RmsNormOptions norm_of_hidden(const LanguageConfig& c) {
  return {.width = c.hidden_size,
          .eps = static_cast<float>(c.norm_eps),
          .weight_offset = c.norm_unit_offset ? 1.0F : 0.0F};
}

LinearOptions square_of(const LanguageConfig& c) {
  return decoder_linear(c.hidden_size, c.hidden_size, false, decoder_weight_init(c));
}

// The root of the mean square of each row, at least √`least`, in f32.
Tensor magnitude(const Tensor& x, double least) {
  const Tensor squares = mean(square(to(x, accumulator_dtype(x.dtype()))), {-1}, true);
  return sqrt(least > 0 ? clamp(squares, least, std::numeric_limits<double>::infinity()) : squares);
}

// x with the magnitude of rows that is wanted.
Tensor as_large(const Tensor& x, const Tensor& wanted) {
  return to(to(x, wanted.dtype()) * (wanted / magnitude(x, 1e-5)), x.dtype());
}

}  // namespace

AltUp::AltUp(const ParamSource& source, const LanguageConfig& c)
    : correction_coefs(source.scope("correction_coefs"),
                       decoder_linear(c.altup_num_inputs, c.altup_num_inputs, false, decoder_weight_init(c))),
      prediction_coefs(source.scope("prediction_coefs"),
                       decoder_linear(c.altup_num_inputs, c.altup_num_inputs * c.altup_num_inputs, false,
                                      decoder_weight_init(c))),
      modality_router(source.scope("modality_router"),
                      decoder_linear(c.hidden_size, c.altup_num_inputs, false, decoder_weight_init(c))),
      router_norm(source.scope("router_norm"), norm_of_hidden(c)),
      correct_output_scale(source.take("correct_output_scale", {c.hidden_size}, init::kZeros,
                                       {.decay = false, .trainable = c.altup_correct_scale})),
      streams(c.altup_num_inputs),
      index(c.altup_active_idx),
      scales(c.altup_correct_scale) {}

Tensor AltUp::modalities(const Tensor& x) const {
  const Tensor routed = modality_router(router_norm(x) * (1 / static_cast<double>(x.dim(-1))));
  return to(tanh(to(routed, accumulator_dtype(x.dtype()))), x.dtype());
}

Tensor AltUp::active(const Tensor& x) const { return contiguous(select(x, 2, index)); }

Tensor AltUp::predict(const Tensor& x) const {
  const Tensor weights = prediction_coefs(modalities(active(x)));
  return x + matmul(reshape(weights, {x.dim(0), x.dim(1), streams, streams}), x);
}

Tensor AltUp::correct(const Tensor& predictions, const Tensor& made) const {
  const Tensor weights = correction_coefs(modalities(made)) + 1.0;
  return predictions + unsqueeze(made - active(predictions), 2) * unsqueeze(weights, 3);
}

Tensor AltUp::output(const Tensor& corrected) const {
  const Tensor x = active(corrected);
  return scales ? x * to(correct_output_scale.value, x.dtype()) : x;
}

void AltUp::visit(ParamVisitor& v) {
  v("correction_coefs", correction_coefs);
  v("prediction_coefs", prediction_coefs);
  v("modality_router", modality_router);
  v("router_norm", router_norm);
  v("correct_output_scale", correct_output_scale);
}

Laurel::Laurel(const ParamSource& source, const LanguageConfig& c)
    : linear_left(source.scope("linear_left"),
                  decoder_linear(c.hidden_size, c.laurel_rank, false, decoder_weight_init(c))),
      linear_right(source.scope("linear_right"),
                   decoder_linear(c.laurel_rank, c.hidden_size, false, decoder_residual_init(c))),
      post_laurel_norm(source.scope("post_laurel_norm"), norm_of_hidden(c)) {}

Tensor Laurel::operator()(const Tensor& x) const {
  return x + post_laurel_norm(linear_right(linear_left(x)));
}

void Laurel::visit(ParamVisitor& v) {
  v("linear_left", linear_left);
  v("linear_right", linear_right);
  v("post_laurel_norm", post_laurel_norm);
}

Streams::Streams(const ParamSource& source, const LanguageConfig& c) : hidden(c.hidden_size) {
  for (std::int64_t i = 0; i + 1 < c.altup_num_inputs; ++i) {
    altup_projections.push_back(std::make_unique<Linear>(source.scope("altup_projections", i), square_of(c)));
    altup_unembed_projections.push_back(
        std::make_unique<Linear>(source.scope("altup_unembed_projections", i), square_of(c)));
  }
}

Tensor Streams::spread(const Tensor& x) const {
  const Tensor wanted = magnitude(x, 0);
  std::vector<Tensor> all{x};
  for (const auto& projection : altup_projections) all.push_back(as_large((*projection)(x), wanted));
  return concat(all, -1);
}

Tensor Streams::merged(const Tensor& streams) const {
  const auto stream = [&](std::size_t i) {
    return contiguous(narrow(streams, -1, static_cast<std::int64_t>(i) * hidden, hidden));
  };
  const Tensor first = stream(0), wanted = magnitude(first, 0);
  Tensor sum = first;
  for (std::size_t i = 0; i < altup_unembed_projections.size(); ++i)
    sum = sum + as_large((*altup_unembed_projections[i])(stream(i + 1)), wanted);
  return sum * (1 / static_cast<double>(altup_unembed_projections.size() + 1));
}

void Streams::visit(ParamVisitor& v) {
  v("altup_projections", altup_projections);
  v("altup_unembed_projections", altup_unembed_projections);
}

}  // namespace ingot
