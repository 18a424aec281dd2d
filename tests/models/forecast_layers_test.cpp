#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "tests/models/forecast_goldens.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/models/forecast/decomposition_transformer.h"
#include "ingot/models/forecast/fourier_mixer.h"
#include "ingot/models/forecast/itransformer.h"
#include "ingot/models/forecast/patchtst.h"
#include "ingot/models/forecast/revin.h"
#include "ingot/models/forecast/times_net.h"
#include "ingot/models/forecast/wavelet_mixer.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/conv.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

// Single layers of the original implementations: what they write and the gradients of what they read and of
// their parameters, for what they read inside of their network (tools/goldens/forecast_layers.py).
namespace ingot {
namespace {

using Tensors = std::vector<Tensor>;
using testing::max_error;

// A part of a network, and how to call it.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual Tensors run(const Tensors& reads) = 0;
  virtual void visit(ParamVisitor& v) = 0;
};

template <class Part, class Run>
class LayerOf final : public Layer {
 public:
  LayerOf(std::shared_ptr<Part> part, Run run) : part_(std::move(part)), run_(std::move(run)) {}
  Tensors run(const Tensors& reads) override { return run_(*part_, reads); }
  void visit(ParamVisitor& v) override { part_->visit(v); }

 private:
  std::shared_ptr<Part> part_;
  Run run_;
};

using LayerPtr = std::unique_ptr<Layer>;

template <class Part, class Run>
LayerPtr layer_of(std::shared_ptr<Part> part, Run run) {
  return std::make_unique<LayerOf<Part, Run>>(std::move(part), std::move(run));
}

struct InvertedEmbedding {
  InvertedEmbedding(const ParamSource& source, const ForecastModelConfig& c)
      : linear(source.scope("value_embedding"), {.in = c.lookback, .out = c.d_model}) {}
  void visit(ParamVisitor& v) { v("value_embedding", linear); }
  Linear linear;
};

struct PatchLayers {
  std::vector<std::unique_ptr<PatchLayer>> layers;
  void visit(ParamVisitor& v) { v("layers", layers); }
};

// [B * channels, patches, d_model], as the published code has it, and back.
Tensor by_channel(const ForecastModelConfig& c, const Tensor& x) {
  return reshape(x, {x.dim(0) / c.channels, c.channels, x.dim(1), x.dim(2)});
}
Tensor folded(const Tensor& x) { return reshape(x, {x.dim(0) * x.dim(1), x.dim(2), x.dim(3)}); }

LayerPtr patch_layers(const ForecastModelConfig& c, const ParamSource& all, std::int64_t count) {
  auto part = std::make_shared<PatchLayers>();
  for (std::int64_t i = 0; i < count; ++i)
    part->layers.push_back(std::make_unique<PatchLayer>(all.scope("model.encoder.layers", i), c));
  return layer_of(part, [c](PatchLayers& p, const Tensors& reads) -> Tensors {
    Tensor x = by_channel(c, reads[0]);
    ResidualScores scores;
    for (const auto& layer : p.layers) x = (*layer)(x, scores, true);
    return {folded(x)};
  });
}

LayerPtr patch_layer(const ForecastModelConfig& c, const ParamSource& all) {
  return layer_of(std::make_shared<PatchLayer>(all.scope("model.encoder.layers.0"), c),
                  [c](PatchLayer& p, const Tensors& reads) -> Tensors {
                    ResidualScores scores;
                    return {folded(p(by_channel(c, reads[0]), scores, true))};
                  });
}

LayerPtr patch_head(const ForecastModelConfig& c, const ParamSource& all) {
  return layer_of(std::make_shared<PatchTst>(c, all),
                  [](PatchTst& p, const Tensors& reads) -> Tensors { return {p.head(reads[0])}; });
}

LayerPtr inverted_embedding(const ForecastModelConfig& c, const ParamSource& all) {
  return layer_of(std::make_shared<InvertedEmbedding>(all.scope("enc_embedding"), c),
                  [](InvertedEmbedding& p, const Tensors& reads) -> Tensors {
                    return {p.linear(concat(std::array{reads[0], transpose(reads[1], 1, 2)}, 1))};
                  });
}

LayerPtr inverted_layer(const ForecastModelConfig& c, const ParamSource& all, std::int64_t index) {
  return layer_of(
      std::make_shared<ForecastEncoderLayer>(all.scope("encoder.attn_layers", index), c),
      [](ForecastEncoderLayer& p, const Tensors& reads) -> Tensors { return {p(reads[0], true)}; });
}

LayerPtr times_block(const ForecastModelConfig& c, const ParamSource& all, std::int64_t index) {
  return layer_of(std::make_shared<TimesBlock>(all.scope("model", index), c),
                  [](TimesBlock& p, const Tensors& reads) -> Tensors { return {p(reads[0], true)}; });
}

LayerPtr inception(const ForecastModelConfig& c, const ParamSource& all) {
  return layer_of(std::make_shared<InceptionBlock>(all.scope("model.0.conv.0"), c.d_model, c.d_ff, c.kernels),
                  [c](InceptionBlock& p, const Tensors& reads) -> Tensors {
                    const ConvWeights w = p.merged();
                    return {conv2d(reads[0], w.weight, w.bias, {.padding = {c.kernels - 1, c.kernels - 1}})};
                  });
}

LayerPtr data_embedding(const ForecastModelConfig& c, const ParamSource& all) {
  return layer_of(
      std::make_shared<DataEmbedding>(all.scope("enc_embedding"), c, c.model == "timesnet"),
      [](DataEmbedding& p, const Tensors& reads) -> Tensors { return {p(reads[0], reads[1], true)}; });
}

LayerPtr decomposition(const ForecastModelConfig& c, const ParamSource& all) {
  const std::vector<std::int64_t> windows =
      c.model == "fedformer" ? c.moving_averages : std::vector<std::int64_t>{c.moving_average};
  return layer_of(std::make_shared<SeriesTrend>(all.scope("decomp"), windows),
                  [](SeriesTrend& p, const Tensors& reads) -> Tensors {
                    const Tensor trend = p(reads[0]);
                    return {reads[0] - trend, trend};
                  });
}

LayerPtr seasonal_norm(const ForecastModelConfig& c, const ParamSource& all) {
  return layer_of(std::make_shared<SeasonalNorm>(all.scope("encoder.norm"), c.d_model),
                  [](SeasonalNorm& p, const Tensors& reads) -> Tensors { return {p(reads[0])}; });
}

const std::string kEncoder = "encoder.attn_layers.0", kDecoder = "decoder.layers.0";

enum class Place { encoder, decoder, cross };

std::shared_ptr<SeriesMixer> mixer_at(const ForecastModelConfig& c, const ParamSource& all, Place place) {
  const std::string of = place == Place::encoder   ? kEncoder + ".attention"
                         : place == Place::decoder ? kDecoder + ".self_attention"
                                                   : kDecoder + ".cross_attention";
  const ParamSource at = all.scope(of + ".inner_correlation");
  const std::int64_t decoded = c.start_length() + c.horizon;
  if (c.model == "autoformer") return std::make_shared<AutoCorrelation>(c.factor, false);
  if (c.version == "wavelets") {
    if (place == Place::cross) return std::make_shared<WaveletCross>(at, c);
    return std::make_shared<WaveletMixer>(at, c);
  }
  if (place == Place::cross) return std::make_shared<FourierCross>(at, c, decoded, c.lookback, 2);
  const bool encodes = place == Place::encoder;
  return std::make_shared<FourierMixer>(at, c, encodes ? c.lookback : decoded, encodes ? 0 : 1);
}

// A mixer alone: what it does not read was not recorded.
LayerPtr mixer(const ForecastModelConfig& c, const ParamSource& all, Place place) {
  return layer_of(mixer_at(c, all, place), [](SeriesMixer& p, const Tensors& reads) -> Tensors {
    std::size_t next = 0;
    const auto given = [&](bool wanted) { return wanted ? reads.at(next++) : Tensor(); };
    const SeriesMixer::Reads wants = p.reads();
    const Tensor query = given(wants.query), key = given(wants.key), value = given(wants.value);
    return {p(query, key, value, true)};
  });
}

LayerPtr mixing_layer(const ForecastModelConfig& c, const ParamSource& all, Place place) {
  const std::string at = place == Place::encoder ? kEncoder + ".attention" : kDecoder + ".cross_attention";
  return layer_of(
      std::make_shared<MixingLayer>(all.scope(at), c.d_model, mixer_at(c, all, place)),
      [](MixingLayer& p, const Tensors& reads) -> Tensors { return {p(reads.front(), reads.back(), true)}; });
}

LayerPtr encoder_layer(const ForecastModelConfig& c, const ParamSource& all) {
  return layer_of(
      std::make_shared<DecompositionEncoderLayer>(all.scope(kEncoder), c, mixer_at(c, all, Place::encoder)),
      [](DecompositionEncoderLayer& p, const Tensors& reads) -> Tensors { return {p(reads[0], true)}; });
}

LayerPtr decoder_layer(const ForecastModelConfig& c, const ParamSource& all) {
  return layer_of(
      std::make_shared<DecompositionDecoderLayer>(all.scope(kDecoder), c, mixer_at(c, all, Place::decoder),
                                                  mixer_at(c, all, Place::cross)),
      [](DecompositionDecoderLayer& p, const Tensors& reads) -> Tensors {
        const auto result = p(reads[0], reads[1], true);
        return {result.season, result.trend};
      });
}

LayerPtr trend_projection(const ForecastModelConfig& c, const ParamSource& all) {
  return layer_of(std::make_shared<CircularConv>(all.scope(kDecoder + ".projection"), c.d_model, c.channels,
                                                 init::kZeros),
                  [](CircularConv& p, const Tensors& reads) -> Tensors { return {p(reads[0])}; });
}

struct LayerCase {
  const char* file;
  std::string layer;
  std::function<LayerPtr(const ForecastModelConfig&, const ParamSource&)> make;
};

std::ostream& operator<<(std::ostream& out, const LayerCase& c) { return out << c.file << " " << c.layer; }

class ForecastLayer : public ::testing::TestWithParam<LayerCase> {};

TEST_P(ForecastLayer, WritesAndPassesBackWhatTheOriginalDoes) {
  const std::string path = test::forecast_golden(GetParam().file);
  const ForecastModelConfig c = test::forecast_golden_config(path + ".safetensors");
  TensorMapSource source(test::with_prefix(test::load_tensors(path + ".safetensors"), "param."),
                         {.copy = true}, path);
  const LayerPtr layer = GetParam().make(c, source);
  auto recorded = test::with_prefix(test::load_tensors(path + "_layers.safetensors"), GetParam().layer + ".");
  const auto all_of = [&](const std::string& kind) {
    Tensors found;
    for (int i = 0; recorded.contains(kind + std::to_string(i)); ++i)
      found.push_back(recorded.at(kind + std::to_string(i)));
    return found;
  };
  Tensors reads = all_of("x");
  for (std::size_t i = 0; i < reads.size(); ++i)
    reads[i].set_requires_grad(recorded.contains("dx" + std::to_string(i)));
  const Tensors results = layer->run(reads), expected = all_of("y"), upstream = all_of("dy");
  ASSERT_EQ(results.size(), expected.size());
  ASSERT_FALSE(results.empty());
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_LT(max_error(results[i], expected[i]), 1e-5) << "y" << i;
  backward(results, upstream);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (!reads[i].requires_grad()) continue;
    EXPECT_LT(max_error(reads[i].grad(), recorded.at("dx" + std::to_string(i))), 3e-5) << "dx" << i;
  }
  const auto gradients = test::with_prefix(recorded, "grad.");
  for_each_parameter(*layer, [&](const std::string& name, Parameter& p) {
    ASSERT_EQ(p.grad().defined(), gradients.contains(name)) << name;
    if (!p.grad().defined()) return;  // a buffer, or what nothing reads
    EXPECT_LT(max_error(p.grad(), gradients.at(name)), 3e-5) << name;
  });
}

std::vector<LayerCase> decomposition_cases(const char* file) {
  const auto at = [](auto make, Place place) {
    return
        [make, place](const ForecastModelConfig& c, const ParamSource& all) { return make(c, all, place); };
  };
  return {{file, "decomp", decomposition},
          {file, "enc_embedding", data_embedding},
          {file, kEncoder, encoder_layer},
          {file, kEncoder + ".attention", at(mixing_layer, Place::encoder)},
          {file, kEncoder + ".attention.inner_correlation", at(mixer, Place::encoder)},
          {file, "encoder.norm", seasonal_norm},
          {file, kDecoder, decoder_layer},
          {file, kDecoder + ".cross_attention", at(mixing_layer, Place::cross)},
          {file, kDecoder + ".cross_attention.inner_correlation", at(mixer, Place::cross)},
          {file, kDecoder + ".projection", trend_projection}};
}

std::vector<LayerCase> layer_cases() {
  const auto numbered = [](auto make, std::int64_t n) {
    return [make, n](const ForecastModelConfig& c, const ParamSource& all) { return make(c, all, n); };
  };
  std::vector<LayerCase> cases = {{"dlinear", "decompsition", decomposition},
                                  {"patchtst_official", "model.encoder.layers.0", patch_layer},
                                  {"patchtst_official", "model.encoder", numbered(patch_layers, 2)},
                                  {"patchtst_official", "model.head", patch_head},
                                  {"itransformer", "enc_embedding", inverted_embedding},
                                  {"itransformer", "encoder.attn_layers.0", numbered(inverted_layer, 0)},
                                  {"itransformer", "encoder.attn_layers.1", numbered(inverted_layer, 1)},
                                  {"timesnet", "enc_embedding", data_embedding},
                                  {"timesnet", "model.0", numbered(times_block, 0)},
                                  {"timesnet", "model.1", numbered(times_block, 1)},
                                  {"timesnet", "model.0.conv.0", inception}};
  for (const char* file : {"autoformer", "fedformer_low", "fedformer_random", "fedformer_wavelets"}) {
    for (const LayerCase& c : decomposition_cases(file)) cases.push_back(c);
  }
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<LayerCase>& info) {
  std::string name = std::string(info.param.file) + "_" + info.param.layer;
  std::ranges::replace(name, '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Layers, ForecastLayer, ::testing::ValuesIn(layer_cases()), case_name);

// Normalization, patches and tokens of the published PatchTST, one after the other.
TEST(ForecastLayers, PatchTstCutsAndEmbedsAsTheOriginal) {
  const std::string path = test::forecast_golden("patchtst_official");
  const ForecastModelConfig c = test::forecast_golden_config(path + ".safetensors");
  TensorMapSource source(test::with_prefix(test::load_tensors(path + ".safetensors"), "param."),
                         {.copy = true}, path);
  const PatchTst model(c, source);
  const auto recorded = test::load_tensors(path + "_layers.safetensors");
  const auto norm = test::with_prefix(recorded, "model.revin_layer.");
  const RevIN window = RevIN::standard(norm.at("0.x0"));
  EXPECT_LT(max_error(window.apply(norm.at("0.x0")), norm.at("0.y0")), 1e-5);
  EXPECT_LT(max_error(window.undo(norm.at("1.x0")), norm.at("1.y0")), 1e-5);
  // No gradient flows through the statistics.
  Tensor x = clone(norm.at("0.x0"));
  x.set_requires_grad(true);
  backward(RevIN::standard(x).apply(x), {.grad = norm.at("0.dy0")});
  EXPECT_LT(max_error(x.grad(), norm.at("0.dx0")), 3e-5);

  const auto embedding = test::with_prefix(recorded, "model.encoder.embedder.input_embedding.");
  EXPECT_LT(max_error(model.patches(norm.at("0.y0")), embedding.at("x0")), 1e-5);
  EXPECT_LT(max_error(folded(model.embed(embedding.at("x0"))), recorded.at("model.encoder.x0")), 1e-5);
}

}  // namespace
}  // namespace ingot
