#include "ingot/infer/sentence_embedder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/host_memory.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/text/unicode.h"

namespace ingot {
LoadOptions encoder_options(const std::string& format, Device device) {
  LoadOptions options{.device = device, .copy = false, .trainable = false};
  if (format.empty()) return options;
  options.dtype = format == "bf16" ? DType::bf16 : format == "f16" ? DType::f16 : DType::f32;
  options.keep_quantized =
      format != "bf16" && format != "f16" && (format != "f32" || has_host_memory(device));
  if (options.keep_quantized) options.format = format;
  return options;
}

SentenceEmbedder::SentenceEmbedder(std::unique_ptr<TextEncoder> encoder, text::Tokenizer tokenizer,
                                   SentenceConfig config)
    : encoder_(std::move(encoder)),
      tokenizer_(std::move(tokenizer)),
      config_(std::move(config)),
      head_(config_.stages, encoder_->hidden_size() * static_cast<std::int64_t>(config_.poolings.size())),
      max_length_(std::min(config_.max_seq_length.value_or(encoder_->context()), encoder_->context())) {
  INGOT_CHECK(max_length_ >= 2,
              InvalidConfig("max_seq_length", fmt::format("must be at least 2, got {}", max_length_)));
}

SentenceEmbedder SentenceEmbedder::open(const std::string& directory, const LoadOptions& options) {
  SentenceConfig config = SentenceConfig::from_directory(directory);
  auto encoder = open_text_encoder(config.encoder, options);
  auto tokenizer = open_tokenizer(config.encoder);
  return {std::move(encoder), std::move(tokenizer), std::move(config)};
}

std::vector<std::vector<std::int32_t>> SentenceEmbedder::encode(std::span<const std::string_view> texts,
                                                                const std::string& prompt, bool cut) const {
  std::vector<std::string> changed;
  std::vector<std::string_view> views(texts.begin(), texts.end());
  if (!prompt.empty() || config_.lowercase) {
    changed.reserve(texts.size());
    for (std::string_view& text : views) {
      std::string& whole = changed.emplace_back(prompt + std::string(text));
      if (config_.lowercase) text::lower_case(whole);
      text = whole;
    }
  }
  std::vector<std::vector<std::int32_t>> ids = tokenizer_.encode_batch(views);
  if (cut) cut_texts(ids, max_length_, tokenizer_);
  return ids;
}

std::int64_t SentenceEmbedder::prompt_tokens(const std::string& prompt) const {
  if (prompt.empty()) return 0;
  const std::vector<std::string_view> alone{prompt};
  const std::vector<std::int32_t> ids = encode(alone).front();
  const bool ends = !ids.empty() && tokenizer_.is_special(ids.back());
  return static_cast<std::int64_t>(ids.size()) - (ends ? 1 : 0);
}

Tensor SentenceEmbedder::embed(std::span<const std::string_view> texts, const std::string& prompt) const {
  return embed_ids(encode(texts, prompt), prompt_tokens(prompt));
}

Tensor SentenceEmbedder::embed_ids(const std::vector<std::vector<std::int32_t>>& texts,
                                   std::int64_t prompt_tokens, std::size_t first_text) const {
  const NoGrad no_grad;
  const std::int64_t width = encoder_->hidden_size(),
                     pooled = width * static_cast<std::int64_t>(config_.poolings.size());
  const std::int64_t skipped = config_.include_prompt ? 0 : prompt_tokens;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    INGOT_CHECK(!texts[i].empty() && static_cast<std::int64_t>(texts[i].size()) <= max_length_,
                DimensionMismatch(fmt::format("text {} has {} tokens; this model takes 1 to {}",
                                              first_text + i, texts[i].size(), max_length_)));
  }
  const Tensor vectors = Tensor::zeros({static_cast<std::int64_t>(texts.size()), pooled});
  float* out = vectors.data<float>();
  for_each_batch(texts, [&](std::size_t first, std::size_t last) {
    PackedTexts packed;
    for (std::size_t i = first; i < last; ++i) packed.add(texts[i]);
    const Tensor hidden = contiguous(to(to(encoder_->hidden(packed), DType::f32), kCpu));
    const float* rows = hidden.data<float>();
    for (std::size_t i = first; i < last; ++i) {
      const auto count = static_cast<std::int64_t>(texts[i].size());
      pool(config_.poolings, rows, count, width, skipped, out + static_cast<std::int64_t>(i) * pooled);
      rows += count * width;
    }
  });
  return head_(vectors);
}

Tensor truncated(const Tensor& vectors, std::int64_t dimension) {
  INGOT_CHECK(dimension > 0 && dimension <= vectors.dim(1),
              InvalidConfig("dimensions", fmt::format("must be from 1 to the model's {}, got {}",
                                                      vectors.dim(1), dimension)));
  return contiguous(narrow(vectors, 1, 0, dimension));
}

}  // namespace ingot
