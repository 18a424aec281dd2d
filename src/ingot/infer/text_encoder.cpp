#include "ingot/infer/text_encoder.h"

#include <algorithm>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/models/language/classifier.h"
#include "ingot/models/opened_config.h"
#include "ingot/ops/index.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Enough to keep the matmuls at full speed; the activations of BERT-base then take some 60 MB.
constexpr std::size_t kBatchTokens = 4096;

template <class T>
Tensor row(const std::vector<T>& values, Device device) {
  return Tensor::from(values, {1, static_cast<std::int64_t>(values.size())}, device);
}

class BidirectionalEncoder final : public TextEncoder {
 public:
  explicit BidirectionalEncoder(std::unique_ptr<BertModel> model) : model_(std::move(model)) {}

  Tensor hidden(const PackedTexts& texts) const override {
    EncoderInput input{.tokens = row(texts.tokens, device()),
                       .positions = row(texts.positions, device()),
                       .doc_start = row(texts.starts, device())};
    const bool typed = std::ranges::any_of(texts.token_types, [](std::int32_t type) { return type != 0; });
    if (typed && model_->config.type_vocab_size > 1) input.token_types = row(texts.token_types, device());
    return model_->hidden(input);
  }
  std::int64_t hidden_size() const override { return model_->config.hidden_size; }
  std::int64_t context() const override { return model_->config.context(); }
  Device device() const override { return model_->device(); }
  const Labels& labels() const override { return model_->config.labels; }
  Tensor label_logits(const Tensor& hidden) const override { return model_->label_logits(hidden); }
  Tensor text_states(const Tensor& hidden, const PackedTexts& texts) const override {
    return model_->text_states(hidden,
                               {.tokens = row(texts.tokens, kCpu), .doc_start = row(texts.starts, kCpu)});
  }
  void visit(ParamVisitor& v) override { model_->visit(v); }

 private:
  std::unique_ptr<BertModel> model_;
};

class CausalEncoder final : public TextEncoder {
 public:
  CausalEncoder(std::unique_ptr<LanguageModel> model, std::unique_ptr<LabelHead> head)
      : model_(std::move(model)), head_(std::move(head)) {}

  Tensor hidden(const PackedTexts& texts) const override {
    return model_->hidden({.tokens = row(texts.tokens, device()),
                           .positions = row(texts.positions, device()),
                           .doc_start = row(texts.starts, device()),
                           .length = texts.longest});
  }
  std::int64_t hidden_size() const override { return model_->config.hidden_size; }
  std::int64_t context() const override { return model_->config.max_position_embeddings; }
  Device device() const override { return model_->device(); }
  const Labels& labels() const override {
    static const Labels kNone;
    return head_ == nullptr ? kNone : head_->labels;
  }
  Tensor label_logits(const Tensor& hidden) const override { return (*head_)(hidden); }
  Tensor text_states(const Tensor& hidden, const PackedTexts& texts) const override {
    const auto count = static_cast<std::int64_t>(texts.last.size());
    return index_select(select(hidden, 0, 0), 0, Tensor::from(texts.last, {count}, device()));
  }
  void visit(ParamVisitor& v) override { model_->visit(v); }

 private:
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<LabelHead> head_;
};

}  // namespace

void PackedTexts::add(const std::vector<std::int32_t>& text, const std::vector<std::int32_t>& types) {
  const auto start = static_cast<std::int64_t>(tokens.size()), count = static_cast<std::int64_t>(text.size());
  tokens.insert(tokens.end(), text.begin(), text.end());
  token_types.insert(token_types.end(), types.begin(), types.end());
  token_types.resize(tokens.size(), 0);
  starts.insert(starts.end(), text.size(), static_cast<std::int32_t>(start));
  for (std::int64_t i = 0; i < count; ++i) positions.push_back(i);
  first.push_back(start);
  last.push_back(start + count - 1);
  longest = std::max(longest, count);
}

void cut_texts(std::vector<std::vector<std::int32_t>>& texts, std::int64_t limit,
               const text::Tokenizer& tokenizer) {
  for (std::vector<std::int32_t>& text : texts) {
    if (static_cast<std::int64_t>(text.size()) <= limit) continue;
    const std::int32_t last = text.back();
    text.resize(static_cast<std::size_t>(limit));
    if (tokenizer.is_special(last)) text.back() = last;
  }
}

void for_each_batch(const std::vector<std::vector<std::int32_t>>& texts,
                    const std::function<void(std::size_t first, std::size_t last)>& batch) {
  for (std::size_t first = 0, last = 0; first < texts.size(); first = last) {
    std::size_t tokens = 0;
    do tokens += texts[last++].size();
    while (last < texts.size() && tokens + texts[last].size() <= kBatchTokens);
    batch(first, last);
  }
}

std::unique_ptr<TextEncoder> as_text_encoder(std::unique_ptr<BertModel> encoder) {
  return std::make_unique<BidirectionalEncoder>(std::move(encoder));
}

std::unique_ptr<TextEncoder> open_text_encoder(const std::string& directory, const LoadOptions& options) {
  const OpenedConfig opened = open_config(directory);
  if (opened.info == nullptr || !opened.info->can(ModelTask::generate)) {
    return as_text_encoder(load_bert(directory, options));
  }
  const ModelCheckpoint checkpoint = open_checkpoint(directory);
  LoadOptions wide = options;
  wide.wide_vectors = backend(options.device).capabilities().host_memory;
  auto model = load_headless(checkpoint, wide);
  auto head = load_label_head(checkpoint, model->config.hidden_size, wide);
  return std::make_unique<CausalEncoder>(std::move(model), std::move(head));
}

}  // namespace ingot
