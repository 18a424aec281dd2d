#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/models/encoder/bert.h"
#include "ingot/text/tokenizer.h"

namespace ingot {

/// How the vectors of a text's tokens become one.
enum class Pooling : std::uint8_t { mean, cls, max, mean_sqrt_length, last };

std::string_view name(Pooling pooling);

/// What a directory of sentence-transformers says beside the encoder: modules.json, 1_Pooling/config.json,
/// sentence_bert_config.json.
struct SentenceConfig {
  Pooling pooling = Pooling::mean;
  bool normalize = false;             ///< vectors get length 1
  std::int64_t max_seq_length = 512;  ///< tokens of a text that count, special ones included

  /// Reads what is there; a plain encoder directory means the mean, not normalised. `context` is the
  /// encoder's limit. FormatError names file and key; NotImplemented a module or a pooling that Ingot lacks.
  static SentenceConfig from_directory(const std::string& directory, std::int64_t context);
};

/// How an encoder's weights are opened for inference. `format`: empty for as stored, in the mapped file;
/// "f32" in tiles, which take memory of their own and make products faster (kernels/weight_only.h); bf16 or
/// f16; or a quantised format ("q8_0", "int8"; InvalidConfig lists them when the model is loaded), with
/// activations rounded to int8 as they come, embeddings in f32. On another `device` than the CPU "f32" needs
/// no tiles.
LoadOptions encoder_options(const std::string& format = {}, Device device = kCpu);

/// Turns texts into vectors whose scalar products say how near their meanings are (Reimers and Gurevych
/// 2019).
class SentenceEmbedder {
 public:
  SentenceEmbedder(std::unique_ptr<BertModel> encoder, text::Tokenizer tokenizer,
                   const SentenceConfig& config);
  /// Opens a directory of sentence-transformers, or of a BERT with its tokenizer.
  static SentenceEmbedder open(const std::string& directory, const LoadOptions& options = {});

  /// f32 [texts, dimension] on the host, in order. Texts are packed one behind another into batches, without
  /// padding. Texts beyond max_seq_length are cut.
  Tensor embed(std::span<const std::string_view> texts) const;
  /// The same for ids, special tokens included. DimensionMismatch names a text without tokens or with too
  /// many.
  Tensor embed_ids(const std::vector<std::vector<std::int32_t>>& texts) const;
  /// The ids that embed() gives to the encoder.
  std::vector<std::vector<std::int32_t>> encode(std::span<const std::string_view> texts) const;

  std::int64_t dimension() const { return encoder_->config.hidden_size; }
  const SentenceConfig& config() const { return config_; }
  const BertModel& encoder() const { return *encoder_; }

 private:
  std::unique_ptr<BertModel> encoder_;
  text::Tokenizer tokenizer_;
  SentenceConfig config_;
};

}  // namespace ingot
