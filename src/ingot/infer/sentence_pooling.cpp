#include "ingot/infer/sentence_pooling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/view.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

void pool_one(Pooling pooling, const float* rows, std::int64_t count, std::int64_t width,
              std::int64_t skipped, float* out) {
  if (pooling == Pooling::cls || pooling == Pooling::last) {
    std::copy_n(rows + (pooling == Pooling::cls ? skipped : count - 1) * width, width, out);
    return;
  }
  std::fill_n(out, width, pooling == Pooling::max ? -std::numeric_limits<float>::infinity() : 0.0F);
  float total = 0;
  for (std::int64_t row = skipped; row < count; ++row) {
    const float* x = rows + row * width;
    const float weight = pooling == Pooling::weighted_mean ? static_cast<float>(row + 1) : 1.0F;
    total += weight;
    for (std::int64_t i = 0; i < width; ++i) {
      out[i] = pooling == Pooling::max ? std::max(out[i], x[i]) : out[i] + weight * x[i];
    }
  }
  if (pooling == Pooling::max) return;
  const float divisor = pooling == Pooling::mean_sqrt_length ? std::sqrt(total) : total;
  for (std::int64_t i = 0; i < width; ++i) out[i] /= divisor;
}

Tensor activated(const std::string& activation, const Tensor& x) {
  if (activation == "Tanh") return tanh(x);
  if (activation == "ReLU") return relu(x);
  if (activation == "GELU") return gelu_erf(x);
  if (activation == "SiLU") return silu(x);
  if (activation == "Sigmoid") return sigmoid(x);
  return x;
}

void check_activation(const SentenceStage& stage) {
  for (const char* known : {"Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"}) {
    if (stage.activation == known) return;
  }
  throw NotImplemented(
      fmt::format("{}/config.json: activation_function {} (Identity, Tanh, ReLU, GELU, SiLU "
                  "and Sigmoid are)",
                  stage.path, stage.activation));
}

// Undefined where the file has none.
Tensor weight_of(const WeightSource& weights, const std::string& name) {
  return weights.is_available(name) ? to(weights.load_tensor(name), DType::f32) : Tensor{};
}

Tensor required(const WeightSource& weights, const std::string& name) {
  const Tensor found = weight_of(weights, name);
  INGOT_CHECK(found.defined(), IoError(weights.location(), fmt::format("lacks '{}'", name)));
  return found;
}

void check_width(const WeightSource& weights, const char* name, std::int64_t found, std::int64_t expected) {
  INGOT_CHECK(found == expected,
              ShapeMismatch(fmt::format("{}: {}", weights.location(), name), {-1, expected}, {-1, found},
                            "the module before gives that width"));
}

}  // namespace

Tensor normalized(const Tensor& vectors) {
  const Tensor result = contiguous(vectors);
  const std::int64_t width = result.dim(1);
  float* x = result.data<float>();
  for (std::int64_t row = 0; row < result.dim(0); ++row, x += width) {
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * x[i];
    const auto factor = static_cast<float>(1 / std::max(std::sqrt(squares), 1e-12));
    for (std::int64_t i = 0; i < width; ++i) x[i] *= factor;
  }
  return result;
}

void pool(std::span<const Pooling> poolings, const float* rows, std::int64_t count, std::int64_t width,
          std::int64_t skipped, float* out) {
  if (skipped >= count) skipped = 0;
  for (const Pooling pooling : poolings) {
    pool_one(pooling, rows, count, width, skipped, out);
    out += width;
  }
}

SentenceHead::SentenceHead(const std::vector<SentenceStage>& stages, std::int64_t width) : width_(width) {
  for (const SentenceStage& stage : stages) {
    Layer layer{.stage = stage, .weight = {}, .bias = {}, .residual = {}};
    if (stage.kind != SentenceStage::Kind::normalize) {
      const std::shared_ptr<const WeightSource> weights = open_weights(stage.path);
      const bool dense = stage.kind == SentenceStage::Kind::dense;
      const std::string name = dense ? stage.tensor : "norm";
      layer.weight = required(*weights, name + ".weight");
      layer.bias = weight_of(*weights, name + ".bias");
      check_width(*weights, (name + ".weight").c_str(), layer.weight.dim(-1), width_);
      if (dense) {
        check_activation(stage);
        layer.residual = weight_of(*weights, "residual.weight");
        width_ = layer.weight.dim(0);
      }
    }
    layers_.push_back(std::move(layer));
  }
}

Tensor SentenceHead::operator()(Tensor vectors) const {
  for (const Layer& layer : layers_) {
    if (layer.stage.kind == SentenceStage::Kind::normalize) {
      vectors = normalized(vectors);
    } else if (layer.stage.kind == SentenceStage::Kind::layer_norm) {
      vectors = layer_norm(vectors, layer.weight, layer.bias);
    } else {
      Tensor out = linear(vectors, layer.weight, layer.bias);
      out = activated(layer.stage.activation, out);
      vectors = layer.residual.defined() ? out + linear(vectors, layer.residual) : out;
    }
  }
  return vectors;
}

}  // namespace ingot
