#include "ingot/infer/text_classifier.h"

#include <algorithm>
#include <cmath>

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include "tests/support/sentence_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using test::SentenceDirectory;
using testing::max_error;

// Decoders with a head (tools/goldens/classifier_models.py).
class GoldenLabels : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenLabels, PackedTextsGetTheLogitsOfTransformers) {
  const NoGrad no_grad;
  const std::string golden = std::string("labels/") + GetParam();
  const auto encoder = open_text_encoder(test::golden_path(golden));
  const auto tokens = test::expected(golden, "tokens").to_vector<std::int64_t>();
  const auto lengths = test::expected(golden, "lengths").to_vector<std::int32_t>();
  const Tensor expected = test::expected(golden, "logits");
  const auto width = static_cast<std::ptrdiff_t>(tokens.size() / lengths.size());
  PackedTexts texts;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto row = tokens.begin() + static_cast<std::ptrdiff_t>(i) * width;
    texts.add({row, row + lengths[i]});
  }
  const Tensor hidden = encoder->hidden(texts);
  if (encoder->labels().of == LabelsOf::texts) {
    EXPECT_LE(max_error(encoder->label_logits(encoder->text_states(hidden, texts)), expected), 2e-5);
    return;
  }
  const Tensor logits = encoder->label_logits(select(hidden, 0, 0));
  EXPECT_LE(max_error(narrow(logits, 0, 0, lengths[0]), narrow(select(expected, 0, 0), 0, 0, lengths[0])),
            2e-5);
  EXPECT_LE(
      max_error(narrow(logits, 0, lengths[0], lengths[1]), narrow(select(expected, 0, 1), 0, 0, lengths[1])),
      2e-5);
}

INSTANTIATE_TEST_SUITE_P(Decoders, GoldenLabels, ::testing::Values("qwen3", "llama", "gpt2"),
                         [](const auto& param_info) { return std::string(param_info.param); });

TEST(TextClassifier, ScoresOfLabelsAddUpToOneAndRawOnesAreTheirLogits) {
  const SentenceDirectory directory("bert_classifier");
  const TextClassifier classifier = TextClassifier::open(directory.path);
  EXPECT_EQ(classifier.labels().names, (std::vector<std::string>{"low", "middle", "high"}));
  const std::vector<std::string_view> texts{"w5 w6 w7", "w40"};
  const std::vector<float> scores = classifier.scores(classifier.encode(texts)).to_vector<float>(),
                           logits =
                               classifier.scores(classifier.encode(texts), ScoreKind::raw).to_vector<float>();
  EXPECT_NEAR(scores[0] + scores[1] + scores[2], 1, 1e-5);
  const auto best = std::ranges::max_element(logits.begin() + 3, logits.end()) - (logits.begin() + 3);
  EXPECT_EQ(classifier.ranked(std::span(scores).subspan(3, 3)).front().label,
            classifier.labels().names[static_cast<std::size_t>(best)]);
}

TEST(TextClassifier, EachOfManyTextsGetsWhatItGetsAlone) {
  for (const char* golden :
       {"bert_classifier", "mpnet_classifier", "albert_classifier", "electra_classifier"}) {
    const SentenceDirectory directory(golden);
    const TextClassifier classifier = TextClassifier::open(directory.path);
    const std::vector<std::string_view> texts{"w5 w6 w7", "w40", "w9 w10 w11 w12 w13 w14 w15"};
    const std::vector<float> together = classifier.scores(classifier.encode(texts)).to_vector<float>();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::vector<float> alone =
          classifier.scores(classifier.encode(std::span(texts).subspan(i, 1))).to_vector<float>();
      for (std::size_t k = 0; k < alone.size(); ++k)
        EXPECT_NEAR(alone[k], together[i * alone.size() + k], 1e-5) << golden;
    }
  }
}

TEST(TextClassifier, OneLabelIsAProbabilityAndTheLongerTextOfAPairIsCut) {
  const SentenceDirectory directory("xlm_roberta_reranker");
  const TextClassifier model = TextClassifier::open(directory.path);
  std::string longest;
  for (int i = 0; i < 90; ++i) longest += "w" + std::to_string(5 + i % 40) + " ";
  const std::vector<std::string_view> documents{"w7 w8", longest};
  const std::vector<float> scores = model.rerank("w5 w6", documents),
                           raw = model.rerank("w5 w6", documents, ScoreKind::raw);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(scores[i], 1 / (1 + std::exp(-raw[i])), 1e-6);
}

TEST(TextClassifier, SpansAreNeighboursOfOneKind) {
  const SentenceDirectory directory("bert_names");
  const TextClassifier classifier = TextClassifier::open(directory.path);
  std::string text;
  for (int i = 5; i < 30; ++i) text += "w" + std::to_string(i) + " ";
  const std::vector<std::string_view> texts{text};
  const auto spans = classifier.spans(texts).front();
  ASSERT_FALSE(spans.empty());
  std::int64_t end = 1;  // behind [CLS]
  for (const LabelledSpan& span : spans) {
    EXPECT_GE(span.first_token, end);
    EXPECT_TRUE(span.label == "PER" || span.label == "LOC") << span.label;
    EXPECT_EQ(std::ranges::count(span.text, 'w'), span.end - span.first_token) << span.text;
    end = span.end;
  }
  EXPECT_THROW(classifier.scores(classifier.encode(texts)), InvalidConfig);
}

}  // namespace
}  // namespace ingot
