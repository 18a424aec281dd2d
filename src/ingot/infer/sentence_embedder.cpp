#include "ingot/infer/sentence_embedder.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Enough to keep the products at full speed; the activations of BERT-base then take some 60 MB.
constexpr std::int64_t kBatchTokens = 4096;

// Texts one behind another in one row.
struct Packed {
  std::vector<std::int32_t> tokens, starts;
  std::vector<std::int64_t> positions;

  void add(const std::vector<std::int32_t>& text) {
    const auto start = static_cast<std::int32_t>(tokens.size());
    tokens.insert(tokens.end(), text.begin(), text.end());
    starts.insert(starts.end(), text.size(), start);
    for (std::size_t i = 0; i < text.size(); ++i) positions.push_back(static_cast<std::int64_t>(i));
  }
  EncoderInput input(Device device) const {
    const auto count = static_cast<std::int64_t>(tokens.size());
    return {.tokens = Tensor::from(tokens, {1, count}, device),
            .positions = Tensor::from(positions, {1, count}, device),
            .doc_start = Tensor::from(starts, {1, count}, device)};
  }
};

// One vector from `count` rows of `width` numbers.
void pool(Pooling pooling, const float* rows, std::int64_t count, std::int64_t width, float* out) {
  if (pooling == Pooling::cls || pooling == Pooling::last) {
    std::copy_n(rows + (pooling == Pooling::cls ? 0 : (count - 1) * width), width, out);
    return;
  }
  std::copy_n(rows, width, out);
  for (std::int64_t row = 1; row < count; ++row) {
    const float* x = rows + row * width;
    for (std::int64_t i = 0; i < width; ++i) {
      out[i] = pooling == Pooling::max ? std::max(out[i], x[i]) : out[i] + x[i];
    }
  }
  if (pooling == Pooling::max) return;
  const auto tokens = static_cast<float>(count);
  const float divisor = pooling == Pooling::mean ? tokens : std::sqrt(tokens);
  for (std::int64_t i = 0; i < width; ++i) out[i] /= divisor;
}

void normalize(float* x, std::int64_t width) {
  double squares = 0;
  for (std::int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * x[i];
  const auto factor = static_cast<float>(1 / std::max(std::sqrt(squares), 1e-12));
  for (std::int64_t i = 0; i < width; ++i) x[i] *= factor;
}

}  // namespace

LoadOptions encoder_options(const std::string& format, Device device) {
  LoadOptions options{.device = device, .copy = false, .trainable = false};
  if (format.empty()) return options;
  options.dtype = format == "bf16" ? DType::bf16 : format == "f16" ? DType::f16 : DType::f32;
  options.keep_quantized = format != "bf16" && format != "f16" && (format != "f32" || device.is_cpu());
  if (options.keep_quantized) options.format = format;
  return options;
}

SentenceEmbedder::SentenceEmbedder(std::unique_ptr<BertModel> encoder, text::Tokenizer tokenizer,
                                   const SentenceConfig& config)
    : encoder_(std::move(encoder)), tokenizer_(std::move(tokenizer)), config_(config) {
  INGOT_CHECK(
      config_.max_seq_length >= 2 && config_.max_seq_length <= encoder_->config.max_position_embeddings,
      InvalidConfig("max_seq_length",
                    fmt::format("must be from 2 to the encoder's {} positions, got {}",
                                encoder_->config.max_position_embeddings, config_.max_seq_length)));
}

SentenceEmbedder SentenceEmbedder::open(const std::string& directory, const LoadOptions& options) {
  auto encoder = load_bert(directory, options);
  const SentenceConfig config =
      SentenceConfig::from_directory(directory, encoder->config.max_position_embeddings);
  return {std::move(encoder), text::Tokenizer::from_directory(directory), config};
}

std::vector<std::vector<std::int32_t>> SentenceEmbedder::encode(
    std::span<const std::string_view> texts) const {
  std::vector<std::vector<std::int32_t>> ids = tokenizer_.encode_batch(texts);
  const auto limit = static_cast<std::size_t>(config_.max_seq_length);
  for (std::vector<std::int32_t>& text : ids) {
    if (text.size() <= limit) continue;
    const std::int32_t last = text.back();
    text.resize(limit);
    if (tokenizer_.is_special(last)) text.back() = last;  // [SEP] ends a text that was cut, too
  }
  return ids;
}

Tensor SentenceEmbedder::embed(std::span<const std::string_view> texts) const {
  return embed_ids(encode(texts));
}

Tensor SentenceEmbedder::embed_ids(const std::vector<std::vector<std::int32_t>>& texts) const {
  const NoGrad no_grad;
  const std::int64_t width = dimension();
  const Tensor vectors = Tensor::zeros({static_cast<std::int64_t>(texts.size()), width});
  float* out = vectors.data<float>();
  for (std::size_t first = 0; first < texts.size();) {
    Packed packed;
    std::size_t last = first;
    do {
      const std::vector<std::int32_t>& text = texts[last];
      INGOT_CHECK(!text.empty() && static_cast<std::int64_t>(text.size()) <= config_.max_seq_length,
                  DimensionMismatch(fmt::format("text {} has {} tokens; this model takes 1 to {}", last,
                                                text.size(), config_.max_seq_length)));
      packed.add(text);
      ++last;
    } while (last < texts.size() &&
             static_cast<std::int64_t>(packed.tokens.size() + texts[last].size()) <= kBatchTokens);
    const Tensor hidden =
        contiguous(to(to(encoder_->hidden(packed.input(encoder_->device())), DType::f32), kCpu));
    const float* rows = hidden.data<float>();
    for (; first < last; ++first) {
      const auto count = static_cast<std::int64_t>(texts[first].size());
      float* vector = out + static_cast<std::int64_t>(first) * width;
      pool(config_.pooling, rows, count, width, vector);
      if (config_.normalize) normalize(vector, width);
      rows += count * width;
    }
  }
  return vectors;
}

}  // namespace ingot
