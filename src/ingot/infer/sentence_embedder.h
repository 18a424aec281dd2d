#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/infer/sentence_config.h"
#include "ingot/infer/sentence_pooling.h"
#include "ingot/infer/text_encoder.h"
#include "ingot/text/tokenizer.h"

namespace ingot {

/// How the weights of an encoder are opened for inference. `format`: empty for as stored, in the mapped file;
/// "f32" in tiles, which take memory of their own and make matmuls faster (kernels/weight_only.h); bf16 or
/// f16; or a quantized format ("q8_0", "int8"; InvalidConfig lists them when the model is loaded), with
/// activations rounded to int8 as they come, embeddings in f32. On another `device` than the CPU "f32" needs
/// no tiles.
LoadOptions encoder_options(const std::string& format = {}, Device device = kCpu);

/// Turns texts into vectors whose dot products say how near their meanings are (Reimers and Gurevych
/// 2019).
class SentenceEmbedder {
 public:
  SentenceEmbedder(std::unique_ptr<TextEncoder> encoder, text::Tokenizer tokenizer, SentenceConfig config);
  /// Opens a directory of sentence-transformers, of an encoder or a decoder with its tokenizer, or a GGUF
  /// file of a decoder.
  static SentenceEmbedder open(const std::string& directory, const LoadOptions& options = {});

  /// f32 [texts, dimension] on the host, in order. `prompt` is put before each text. Texts are packed
  /// into batches, without padding. Texts beyond max_length() are cut.
  Tensor embed(std::span<const std::string_view> texts, const std::string& prompt = {}) const;
  /// The same for ids, special tokens included. DimensionMismatch names a text without tokens or with too
  /// many, counted from `first_text` on. Poolings that leave out the prompt skip `prompt_tokens` of each
  /// text.
  Tensor embed_ids(const std::vector<std::vector<std::int32_t>>& texts, std::int64_t prompt_tokens = 0,
                   std::size_t first_text = 0) const;
  /// The ids that embed() gives to the encoder. Without `cut` texts beyond max_length() stay whole.
  std::vector<std::vector<std::int32_t>> encode(std::span<const std::string_view> texts,
                                                const std::string& prompt = {}, bool cut = true) const;
  /// Tokens of a text that are the prompt's: those in front of it included, the last special one not.
  std::int64_t prompt_tokens(const std::string& prompt) const;

  /// Elements of a vector.
  std::int64_t dimension() const { return head_.width(); }
  /// Tokens of a text that count, special ones included.
  std::int64_t max_length() const { return max_length_; }
  const SentenceConfig& config() const { return config_; }
  const TextEncoder& encoder() const { return *encoder_; }

 private:
  std::unique_ptr<TextEncoder> encoder_;
  text::Tokenizer tokenizer_;
  SentenceConfig config_;
  SentenceHead head_;
  std::int64_t max_length_;
};

/// The first `dimension` elements of each vector, as Matryoshka models are used. vectors: [texts, width].
/// InvalidConfig where there are fewer.
Tensor truncated(const Tensor& vectors, std::int64_t dimension);

}  // namespace ingot
