#include "ingot/infer/sentence_embedder.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tests/support/sentence_directory.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;
using test::SentenceDirectory;

const std::string kSource = test::source_dir();

// Row `row` of a matrix, computed by hand from what the encoder says of one text alone.
std::vector<float> row_of(const Tensor& x, std::int64_t row) {
  const std::vector<float> all = x.to_vector<float>();
  return {all.begin() + row * x.dim(1), all.begin() + (row + 1) * x.dim(1)};
}

TEST(SentenceEmbedder, PoolsEachTextAsItWouldAlone) {
  const SentenceDirectory directory;
  const std::vector<std::vector<std::int32_t>> texts{{2, 7, 9, 3}, {2, 50, 3}, {2, 11, 12, 13, 14, 15, 3}};
  const auto expected = [&](const std::string& pooling, const std::vector<float>& h, std::size_t count,
                            std::size_t i) {
    double sum = 0, top = -1e9;
    for (std::size_t t = 0; t < count; ++t) {
      sum += h[t * 24 + i];
      top = std::max<double>(top, h[t * 24 + i]);
    }
    if (pooling == "pooling_mode_cls_token") return static_cast<double>(h[i]);
    if (pooling == "pooling_mode_lasttoken") return static_cast<double>(h[(count - 1) * 24 + i]);
    if (pooling == "pooling_mode_max_tokens") return top;
    return sum / (pooling == "pooling_mode_mean_tokens" ? static_cast<double>(count) : std::sqrt(count));
  };
  for (const std::string pooling :
       {"pooling_mode_mean_tokens", "pooling_mode_cls_token", "pooling_mode_max_tokens",
        "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_lasttoken"}) {
    directory.pooling(pooling);
    directory.modules("Dropout");  // instead of Normalize
    const SentenceEmbedder embedder = SentenceEmbedder::open(directory.path);
    const Tensor vectors = embedder.embed_ids(texts);
    for (std::size_t text = 0; text < texts.size(); ++text) {
      const NoGrad no_grad;
      PackedTexts alone;
      alone.add(texts[text]);
      const auto hidden = embedder.encoder().hidden(alone).to_vector<float>();
      const std::vector<float> vector = row_of(vectors, static_cast<std::int64_t>(text));
      for (std::size_t i = 0; i < 24; ++i) {
        EXPECT_NEAR(vector[i], expected(pooling, hidden, texts[text].size(), i), 1e-5) << pooling;
      }
    }
  }
}

TEST(SentenceEmbedder, GivesUnitVectorsWhereTheDirectorySaysSoAndCutsLongTexts) {
  const SentenceDirectory directory;
  write_file_atomically(directory.path + "/sentence_bert_config.json", R"({"max_seq_length": 6})");
  const SentenceEmbedder embedder = SentenceEmbedder::open(directory.path);
  const std::vector<std::string_view> texts{"w7 w9 w11 w13 w15 w17 w19 w21", "w5", ""};
  const auto ids = embedder.encode(texts);
  EXPECT_EQ(ids[0], (std::vector<std::int32_t>{2, 7, 9, 11, 13, 3}));
  EXPECT_EQ(ids[2], (std::vector<std::int32_t>{2, 3}));
  const Tensor vectors = embedder.embed(texts);
  for (std::int64_t row = 0; row < 3; ++row) {
    double squares = 0;
    for (const float x : row_of(vectors, row)) squares += x * x;
    EXPECT_NEAR(squares, 1, 1e-5);
  }
}

TEST(SentenceEmbedder, ATextThatDoesNotFitIsNamedByItsNumberAmongAll) {
  const SentenceDirectory directory;
  const SentenceEmbedder embedder = SentenceEmbedder::open(directory.path);
  const auto message = [&](std::size_t first_text) -> std::string {
    try {
      embedder.embed_ids({{2, 7, 3}, {}}, 0, first_text);
    } catch (const DimensionMismatch& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(0).find("text 1 has 0 tokens"), std::string::npos);
  EXPECT_NE(message(512).find("text 513 has 0 tokens"), std::string::npos);
}

TEST(SentenceEmbedder, ManyTextsInSeveralBatchesEqualEachAlone) {
  const SentenceDirectory directory;
  const SentenceEmbedder embedder = SentenceEmbedder::open(directory.path);
  std::vector<std::vector<std::int32_t>> texts;
  for (std::int32_t i = 0; i < 600; ++i) {  // about 9600 tokens: three batches
    std::vector<std::int32_t> ids{2};
    for (std::int32_t j = 0; j < i % 29; ++j) ids.push_back(5 + (i * 7 + j * 3) % 60);
    ids.push_back(3);
    texts.push_back(ids);
  }
  const Tensor all = embedder.embed_ids(texts);
  for (const std::size_t i : {0U, 28U, 300U, 599U}) {
    const std::vector<float> alone = row_of(embedder.embed_ids({texts[i]}), 0);
    const std::vector<float> together = row_of(all, static_cast<std::int64_t>(i));
    for (std::size_t j = 0; j < alone.size(); ++j) EXPECT_NEAR(alone[j], together[j], 1e-5);
  }
}

float cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return static_cast<float>(ab / std::sqrt(aa * bb));
}

// How many of the first layer's projections are not dense under a format.
int packed_matrices(const std::string& directory, const std::string& format) {
  const auto encoder = load_bert(directory, encoder_options(format));
  int packed = 0;
  for (std::size_t i = 0; i < 3; ++i)
    packed += encoder->layers.front()->query_key_value[i].weight.is_quantized() ? 1 : 0;
  return packed;
}

TEST(SentenceEmbedder, F32TilesGiveTheSameVectors) {
  const SentenceDirectory directory;
  const SentenceEmbedder stored = SentenceEmbedder::open(directory.path);
  const SentenceEmbedder tiles = SentenceEmbedder::open(directory.path, encoder_options("f32"));
  EXPECT_GT(packed_matrices(directory.path, "f32"), 0);
  const std::vector<std::vector<std::int32_t>> texts{{2, 7, 9, 3},
                                                     {2, 11, 12, 13, 14, 15, 16, 17, 18, 19, 3}};
  const auto expected = stored.embed_ids(texts).to_vector<float>();
  const auto found = tiles.embed_ids(texts).to_vector<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

TEST(SentenceEmbedder, Int8WeightsGiveNearlyTheSameVectors) {
  const SentenceDirectory directory;
  const SentenceEmbedder exact = SentenceEmbedder::open(directory.path);
  std::vector<std::vector<std::int32_t>> texts;
  for (std::int32_t i = 0; i < 12; ++i) {
    texts.push_back({2});
    for (std::int32_t j = 0; j < 2 * i + 1; ++j) texts.back().push_back(5 + (i * 7 + j * 3) % 60);
    texts.back().push_back(3);
  }
  const Tensor expected = exact.embed_ids(texts);
  for (const char* format : {"int8", "w8a8"}) {
    const SentenceEmbedder embedder = SentenceEmbedder::open(directory.path, encoder_options(format));
    EXPECT_GT(packed_matrices(directory.path, format), 0) << format;
    const Tensor vectors = embedder.embed_ids(texts);
    for (std::int64_t row = 0; row < 12; ++row) {
      const std::vector<float> together = row_of(vectors, row);
      EXPECT_GT(cosine(together, row_of(expected, row)), 0.9995F) << format << ", text " << row;
      const std::vector<float> alone = row_of(embedder.embed_ids({texts[static_cast<std::size_t>(row)]}), 0);
      // Batches of 64 tokens and more are rounded in spans, but for w8a8.
      const float company = std::string(format) == "w8a8" ? 0.99999F : 0.9999F;
      EXPECT_GT(cosine(together, alone), company) << format << ", text " << row;
    }
  }
  EXPECT_THROW(SentenceEmbedder::open(directory.path, encoder_options("q9")), InvalidConfig);
}

TEST(SentenceEmbedder, SaysWhatItLacks) {
  const SentenceDirectory directory;
  directory.modules("LSTM");
  EXPECT_THROW(SentenceEmbedder::open(directory.path), NotImplemented);
  directory.modules("Normalize");
  write_file_atomically(directory.path + "/1_Pooling/config.json", R"({"pooling_mode": "middle"})");
  EXPECT_THROW(SentenceEmbedder::open(directory.path), InvalidConfig);
  directory.pooling("pooling_mode_mean_tokens");
  write_file_atomically(directory.path + "/modules.json", "[3]");
  EXPECT_THROW(SentenceEmbedder::open(directory.path), FormatError);
  directory.modules("Normalize");
  const SentenceEmbedder embedder = SentenceEmbedder::open(directory.path);
  EXPECT_THROW(embedder.embed_ids({{2, 3}, {}}), DimensionMismatch);
  EXPECT_THROW(embedder.config().prompt("query"), InvalidConfig);
}

class SentenceModel : public ::testing::TestWithParam<const char*> {};

TEST_P(SentenceModel, GivesTheVectorsOfSentenceTransformers) {
  const std::string path = kSource + "/tests/infer/goldens/sentences/" + GetParam();
  const auto golden = parse_json<nlohmann::json>(read_file(path + "/golden.json"), "the test");
  const SentenceEmbedder embedder = SentenceEmbedder::open(path);
  const auto texts = golden["texts"].get<std::vector<std::string>>();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const Tensor vectors =
      embedder.embed(views, embedder.config().prompt(golden.value("prompt_name", std::string())));
  ASSERT_EQ(vectors.dim(1), embedder.dimension());
  for (std::size_t text = 0; text < texts.size(); ++text) {
    const auto expected = golden["vectors"][text].get<std::vector<float>>();
    const std::vector<float> found = row_of(vectors, static_cast<std::int64_t>(text));
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5) << text;
  }
  const Tensor fewer = truncated(vectors, 4);
  EXPECT_EQ(fewer.to_vector<float>()[4], row_of(vectors, 1)[0]);
  EXPECT_THROW(truncated(vectors, embedder.dimension() + 1), InvalidConfig);
}

INSTANTIATE_TEST_SUITE_P(Directories, SentenceModel,
                         ::testing::Values("mode_string", "several_modes", "dense", "dense_residual",
                                           "layer_norm", "default_prompt", "named_prompt", "prompt_left_out",
                                           "nested", "lower_case", "limit_of_tokenizer", "modernbert",
                                           "nomic_bert", "deberta_v2", "embeddinggemma", "qwen3_embedding"),
                         [](const auto& param_info) { return std::string(param_info.param); });

// The real network (tools/goldens/sentence_embeddings.py says where to get it).
TEST(SentenceEmbedder, MiniLmGivesTheSimilaritiesOfTransformers) {
  const char* path = std::getenv("INGOT_MINILM");
  if (path == nullptr) GTEST_SKIP() << "INGOT_MINILM does not name the directory of all-MiniLM-L6-v2";
  const auto golden =
      parse_json<nlohmann::json>(read_file(kSource + "/tests/infer/goldens/minilm.json"), "the test");
  for (const char* format : {"", "f32"}) {
    const SentenceEmbedder embedder = SentenceEmbedder::open(path, encoder_options(format));
    const auto texts = golden["texts"].get<std::vector<std::string>>();
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    const auto ids = embedder.encode(views);
    const Tensor vectors = embedder.embed_ids(ids);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(ids[i].size(), golden["tokens"][i].get<std::size_t>()) << texts[i];
      const std::vector<float> a = row_of(vectors, static_cast<std::int64_t>(i));
      for (std::size_t k = 0; k < 8; ++k) EXPECT_NEAR(a[k], golden["beginnings"][i][k].get<double>(), 1e-5);
      for (std::size_t j = 0; j < texts.size(); ++j) {
        const std::vector<float> b = row_of(vectors, static_cast<std::int64_t>(j));
        double similarity = 0;
        for (std::size_t k = 0; k < a.size(); ++k) similarity += static_cast<double>(a[k]) * b[k];
        EXPECT_NEAR(similarity, golden["similarities"][i][j].get<double>(), 1e-5)
            << texts[i] << " / " << texts[j];
      }
    }
  }
}

// What int8 costs on the real network: the published similarities, within a hundredth, or three where a row
// of activations has one scale.
TEST(SentenceEmbedder, MiniLmInInt8KeepsItsSimilarities) {
  const char* path = std::getenv("INGOT_MINILM");
  if (path == nullptr) GTEST_SKIP() << "INGOT_MINILM does not name the directory of all-MiniLM-L6-v2";
  const auto golden =
      parse_json<nlohmann::json>(read_file(kSource + "/tests/infer/goldens/minilm.json"), "the test");
  const auto texts = golden["texts"].get<std::vector<std::string>>();
  for (const auto& [format, tolerance] : {std::pair("q8_0", 0.01), std::pair("w8a8", 0.03)}) {
    const SentenceEmbedder embedder = SentenceEmbedder::open(path, encoder_options(format));
    const Tensor vectors = embedder.embed(std::vector<std::string_view>(texts.begin(), texts.end()));
    double largest = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      for (std::size_t j = 0; j < texts.size(); ++j) {
        const double similarity = cosine(row_of(vectors, static_cast<std::int64_t>(i)),
                                         row_of(vectors, static_cast<std::int64_t>(j)));
        largest = std::max(largest, std::abs(similarity - golden["similarities"][i][j].get<double>()));
      }
    }
    EXPECT_LE(largest, tolerance) << format;
    RecordProperty(format, std::to_string(largest));
  }
}

}  // namespace
}  // namespace ingot
