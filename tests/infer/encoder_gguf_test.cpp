// Encoders in GGUF files, as llama.cpp has them: written, and read back.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/op_case.h"
#include "tests/support/sentence_directory.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/export/convert.h"
#include "ingot/infer/sentence_embedder.h"
#include "ingot/infer/text_classifier.h"
#include "ingot/infer/text_encoder.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/text/tokenizer.h"
#include "ingot/weights/gguf.h"
#include "ingot/weights/gguf_writer.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using test::SentenceDirectory;
using test::TemporaryDirectory;
using testing::max_error;

std::string golden(const std::string& name) { return test::source_dir() + "/tests/models/goldens/" + name; }

std::string convert(const std::string& source, const std::string& destination) {
  ConvertOptions options;
  options.source = source;
  options.destination = destination;
  return convert_model(options).path;
}

std::string converted(const TemporaryDirectory& to, const std::string& source) {
  return convert(source, to.at("model.gguf"));
}

// Puts `to` in place of the first `from` of a config.json.
void edit_config(const std::string& directory, const std::string& from, const std::string& to) {
  std::string text = read_file(directory + "/config.json");
  text.replace(text.find(from), from.size(), to);
  write_file_atomically(directory + "/config.json", text);
}

class EncoderGguf : public ::testing::TestWithParam<std::string> {};

TEST_P(EncoderGguf, GivesTheHiddenStatesAndLabelsOfItsDirectory) {
  const NoGrad no_grad;
  const TemporaryDirectory place;
  const std::string source = golden(GetParam()), file = converted(place, source);
  const auto directory = load_bert(source), gguf = load_bert(file);
  const Tensor tokens = open_weights(source + "/expected.safetensors")->load_tensor("tokens");
  const Tensor wanted = directory->hidden({.tokens = tokens}), found = gguf->hidden({.tokens = tokens});
  EXPECT_LE(max_error(found, wanted), 1e-6);
  EXPECT_EQ(gguf->config.context(), directory->config.context());
  EXPECT_EQ(gguf->config.labels.names, directory->config.labels.names);
  if (directory->config.labels.of == LabelsOf::nothing) return;
  EXPECT_LE(max_error(gguf->label_logits(gguf->text_states(found, {.tokens = tokens})),
                      directory->label_logits(directory->text_states(wanted, {.tokens = tokens}))),
            1e-6);
}

// A directory made of the file again is the same model.
TEST_P(EncoderGguf, BecomesADirectoryAgain) {
  const NoGrad no_grad;
  const TemporaryDirectory place;
  const std::string source = golden(GetParam()), file = converted(place, source);
  convert(file, place.at("again"));
  const Tensor tokens = open_weights(source + "/expected.safetensors")->load_tensor("tokens");
  EXPECT_LE(max_error(load_bert(place.at("again"))->hidden({.tokens = tokens}),
                      load_bert(source)->hidden({.tokens = tokens})),
            1e-6);
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderGguf,
                         ::testing::Values("bert_legacy", "bert_masked_lm", "bert_classifier",
                                           "roberta_masked_lm", "xlm_roberta", "xlm_roberta_reranker",
                                           "camembert_masked_lm", "distilbert_masked_lm",
                                           "nomic_bert_release", "nomic_bert_masked_lm",
                                           "modernbert_masked_lm"),
                         [](const auto& param) { return param.param; });

// llama.cpp adds its first row to every token, which it does in f32 alone.
TEST(EncoderGgufFormats, LeaveTheTableOfTokenTypesInF32) {
  const TemporaryDirectory place;
  for (const char* dtype : {"q8_0", "q4_k", "f16", "bf16"}) {
    ConvertOptions options;
    options.source = golden("bert_masked_lm");
    options.destination = place.at("model.gguf");
    options.dtype = dtype;
    const auto file = open_gguf(convert_model(options).path);
    EXPECT_EQ(file->get_metadata("token_types.weight").stored_as, "F32") << dtype;
    EXPECT_NE(file->get_metadata("blk.0.attn_q.weight").stored_as, "F32") << dtype;
  }
}

TEST(ModernBertGguf, KeepsTheApproximateGelu) {
  const NoGrad no_grad;
  const SentenceDirectory exact("modernbert_masked_lm"), approximate("modernbert_masked_lm");
  edit_config(approximate.path, R"("hidden_activation": "gelu")",
              R"("hidden_activation": "gelu_pytorch_tanh")");
  const auto hidden = [](const std::string& path) {
    const Tensor tokens =
        open_weights(golden("modernbert_masked_lm") + "/expected.safetensors")->load_tensor("tokens");
    return load_bert(path)->hidden({.tokens = tokens});
  };
  const Tensor found = hidden(converted(approximate.parent, approximate.path));
  EXPECT_LE(max_error(found, hidden(approximate.path)), 1e-6);
  EXPECT_GT(max_error(found, hidden(exact.path)), 1e-5);
}

// Matrices in f16, vectors in f32; and the directory that is made of such a file.
TEST(EncoderGgufFormats, FilesWithMatricesInF16Embed) {
  const NoGrad no_grad;
  for (const char* name : {"bert_masked_lm", "nomic_bert_masked_lm", "modernbert_masked_lm"}) {
    const TemporaryDirectory place;
    ConvertOptions options;
    options.source = golden(name);
    options.destination = place.at("model.gguf");
    options.dtype = "f16";
    const std::string file = convert_model(options).path;
    const Tensor tokens = open_weights(golden(name) + "/expected.safetensors")->load_tensor("tokens");
    const Tensor wanted = load_bert(golden(name))->hidden({.tokens = tokens});
    for (const std::string& from : {file, convert(file, place.at("again"))}) {
      const Tensor found = load_bert(from)->hidden({.tokens = tokens});
      EXPECT_EQ(found.dtype(), DType::f32) << from;
      EXPECT_LE(max_error(found, wanted), 1e-2) << from;
    }
  }
}

TEST(EncoderGgufRefusals, NameWhatLlamaCppDoesNotCompute) {
  const TemporaryDirectory place;
  for (const auto& [name, part] : {std::pair{"albert_masked_lm", "albert"},
                                   {"mpnet_masked_lm", "mpnet"},
                                   {"deberta_v2_masked_lm", "deberta-v2"},
                                   {"electra_masked_lm", "electra"},
                                   {"distilbert_classifier", "classifier"},
                                   {"modernbert_classifier", "GGUF"}}) {
    try {
      converted(place, golden(name));
      ADD_FAILURE() << name << " was written";
    } catch (const NotImplemented& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(EncoderGgufRefusals, NameAnArchitectureThatIsNotRead) {
  const TemporaryDirectory place;
  GgufMetadata metadata;
  metadata.set("general.architecture", GgufValue::of_string("clip"));
  write_gguf(place.at("clip.gguf"), metadata, {});
  try {
    open_text_encoder(place.at("clip.gguf"));
    ADD_FAILURE() << "clip was read";
  } catch (const NotImplemented& error) {
    for (const char* part : {"clip.gguf", "'clip'", "modern-bert"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(SentenceGguf, EmbedsAsItsDirectoryDoes) {
  const std::vector<std::string_view> texts{"w7 w9 w11 w13 w15 w17 w19 w21", "w5", "unknown w6", ""};
  for (const char* pooling :
       {"pooling_mode_mean_tokens", "pooling_mode_cls_token", "pooling_mode_lasttoken"}) {
    for (const char* last : {"Normalize", "Dropout"}) {
      const SentenceDirectory directory;
      directory.pooling(pooling);
      directory.modules(last);
      write_file_atomically(directory.path + "/sentence_bert_config.json", R"({"max_seq_length": 6})");
      write_file_atomically(directory.path + "/config_sentence_transformers.json",
                            R"({"prompts": {"query": "w8 w9 "}, "default_prompt_name": "query"})");
      const SentenceEmbedder wanted = SentenceEmbedder::open(directory.path),
                             found = SentenceEmbedder::open(converted(directory.parent, directory.path));
      EXPECT_EQ(found.encode(texts), wanted.encode(texts)) << pooling;
      EXPECT_LE(max_error(found.embed(texts), wanted.embed(texts)), 1e-6) << pooling << ", " << last;
    }
  }
}

// A Dense module of sentence-transformers, from so many numbers to so many.
void write_dense(const std::string& directory, std::int64_t from, std::int64_t to,
                 const std::string& activation) {
  std::filesystem::create_directories(directory);
  write_file_atomically(directory + "/config.json",
                        R"({"activation_function": "torch.nn.modules.)" + activation + "\"}");
  write_safetensors(directory + "/model.safetensors",
                    {{"linear.weight", testing::randn({to, from}, static_cast<std::uint64_t>(from))}});
}

void write_modules_of_embedding_gemma(const SentenceDirectory& directory) {
  write_file_atomically(directory.path + "/modules.json",
                        R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                            {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
                            {"type": "sentence_transformers.models.Dense", "path": "2_Dense"},
                            {"type": "sentence_transformers.models.Dense", "path": "3_Dense"},
                            {"type": "sentence_transformers.models.Normalize", "path": "4_Normalize"}])");
}

TEST(SentenceGguf, TheTwoDenseModulesOfAnEmbeddingGemmaAreLlamaCppsDenseTensors) {
  const SentenceDirectory directory("embeddinggemma");
  write_modules_of_embedding_gemma(directory);
  write_dense(directory.path + "/2_Dense", 24, 40, "linear.Identity");
  write_dense(directory.path + "/3_Dense", 40, 24, "linear.Identity");
  const std::vector<std::string_view> texts{"w7 w9 w11 w13 w15 w17 w19 w21", "w5", "w6 w8"};
  const std::string file = converted(directory.parent, directory.path);
  const auto gguf = open_gguf(file);
  EXPECT_EQ(gguf->get_metadata("dense_2.weight").shape, (std::vector<std::int64_t>{40, 24}));
  EXPECT_EQ(gguf->fields().integer("gemma-embedding.dense_3_feat_in"), 40);
  EXPECT_EQ(gguf->fields().integer("gemma-embedding.pooling_type"), 1);
  const SentenceEmbedder wanted = SentenceEmbedder::open(directory.path),
                         found = SentenceEmbedder::open(file);
  EXPECT_LE(max_error(found.embed(texts), wanted.embed(texts)), 1e-6);
}

TEST(SentenceGguf, BecomesADirectoryWithTheModulesOfSentenceTransformers) {
  const SentenceDirectory directory("embeddinggemma");
  write_modules_of_embedding_gemma(directory);
  write_dense(directory.path + "/2_Dense", 24, 40, "linear.Identity");
  write_dense(directory.path + "/3_Dense", 40, 24, "linear.Identity");
  write_file_atomically(directory.path + "/sentence_bert_config.json", R"({"max_seq_length": 6})");
  write_file_atomically(directory.path + "/config_sentence_transformers.json",
                        R"({"prompts": {"query": "w8 w9 "}, "default_prompt_name": "query"})");
  const std::string file = converted(directory.parent, directory.path), back = directory.parent.at("back");
  convert_model({.source = file, .destination = back});
  for (const char* name : {"/1_Pooling/config.json", "/2_Dense/config.json", "/3_Dense/model.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(back + name)) << name;
  const std::vector<std::string_view> texts{"w7 w9 w11 w13 w15 w17 w19 w21", "w5", "w6 w8"};
  const SentenceEmbedder wanted = SentenceEmbedder::open(directory.path),
                         found = SentenceEmbedder::open(back);
  EXPECT_EQ(found.encode(texts), wanted.encode(texts));
  EXPECT_LE(max_error(found.embed(texts), wanted.embed(texts)), 1e-6);
}

TEST(SentenceGguf, BecomesADirectoryWhoseDenseModulesAreInTheDtypeThatWasAskedFor) {
  const SentenceDirectory directory("embeddinggemma");
  write_modules_of_embedding_gemma(directory);
  write_dense(directory.path + "/2_Dense", 24, 40, "linear.Identity");
  write_dense(directory.path + "/3_Dense", 40, 24, "linear.Identity");
  const std::string file = converted(directory.parent, directory.path), back = directory.parent.at("back");
  const auto bytes = convert_model({.source = file, .destination = back, .dtype = "bf16"}).bytes;
  const auto numel = [](const WeightSource& weights) {
    std::int64_t sum = 0;
    for (const TensorInfo& info : weights.tensors()) sum += info.numel();
    return sum;
  };
  std::int64_t elements = numel(*open_weights(back));
  for (const char* module : {"/2_Dense", "/3_Dense"}) {
    const auto weights = open_weights(back + module);
    EXPECT_EQ(weights->get_metadata("linear.weight").dtype, DType::bf16) << module;
    elements += numel(*weights);
  }
  EXPECT_EQ(bytes, static_cast<std::uint64_t>(2 * elements));
  const std::vector<std::string_view> texts{"w7 w9 w11 w13 w15 w17 w19 w21", "w5"};
  const SentenceEmbedder wanted = SentenceEmbedder::open(directory.path),
                         found = SentenceEmbedder::open(back);
  EXPECT_LE(max_error(found.embed(texts), wanted.embed(texts)), 5e-2);
}

TEST(SentenceGguf, DenseModulesThatLlamaCppWouldNotApplyAreRefused) {
  const SentenceDirectory directory("embeddinggemma");
  write_modules_of_embedding_gemma(directory);
  write_dense(directory.path + "/2_Dense", 24, 40, "activation.Tanh");
  write_dense(directory.path + "/3_Dense", 40, 24, "linear.Identity");
  EXPECT_THROW(converted(directory.parent, directory.path), NotImplemented);
  write_dense(directory.path + "/2_Dense", 24, 40, "linear.Identity");
  write_dense(directory.path + "/3_Dense", 40, 16, "linear.Identity");
  EXPECT_THROW(converted(directory.parent, directory.path), NotImplemented);
  write_dense(directory.path + "/3_Dense", 40, 24, "linear.Identity");
  write_file_atomically(directory.path + "/modules.json",
                        R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                            {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
                            {"type": "sentence_transformers.models.Normalize", "path": "4_Normalize"},
                            {"type": "sentence_transformers.models.Dense", "path": "2_Dense"},
                            {"type": "sentence_transformers.models.Dense", "path": "3_Dense"}])");
  EXPECT_THROW(converted(directory.parent, directory.path), NotImplemented);
}

TEST(SentenceGguf, RefusesPoolingsAndModulesWithoutAPlace) {
  const SentenceDirectory directory;
  directory.pooling("pooling_mode_max_tokens");
  EXPECT_THROW(converted(directory.parent, directory.path), NotImplemented);
}

// What llama.cpp's converter writes: lists, and no tokenizer.json.
TEST(SentenceGguf, ListsOfWordPiecesGiveTheTokenizer) {
  const SentenceDirectory directory;
  const auto file = open_gguf(converted(directory.parent, directory.path));
  const text::Tokenizer lists(text::make_gguf_tokenizer(gguf_vocabulary(file->fields()), "lists")),
      whole = open_tokenizer(directory.path);
  EXPECT_EQ(file->fields().text("tokenizer.ggml.model"), "bert");
  EXPECT_EQ(file->fields().integer("bert.pooling_type"), 1);
  for (const char* text : {"w7 w9 W11", "", "no such word", "w5w6", "w5, w6!", "[MASK] w8"})
    EXPECT_EQ(lists.encode(text), whole.encode(text)) << text;
}

TEST(ClassifierGguf, ScoresAsItsDirectoryDoes) {
  for (const char* name : {"bert_classifier", "xlm_roberta_reranker"}) {
    const SentenceDirectory directory(name);
    const TextClassifier wanted = TextClassifier::open(directory.path),
                         found = TextClassifier::open(converted(directory.parent, directory.path));
    const std::vector<std::string_view> texts{"w7 w9 w11 w13", "w5"};
    EXPECT_EQ(found.labels().names, wanted.labels().names);
    EXPECT_LE(max_error(found.scores(found.encode(texts)), wanted.scores(wanted.encode(texts))), 1e-6)
        << name;
    const std::vector<float> wanted_ranks = wanted.rerank("w8 w9", texts),
                             ranks = found.rerank("w8 w9", texts);
    for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_NEAR(ranks.at(i), wanted_ranks.at(i), 1e-6) << name;
  }
}

TEST(ClassifierGguf, KeepsItsActivationAndProblem) {
  for (const auto& [name, line] :
       {std::pair{"bert_classifier", R"("problem_type": "multi_label_classification",)"},
        {"xlm_roberta_reranker", R"("problem_type": "regression",)"},
        {"xlm_roberta_reranker",
         R"("sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},)"}}) {
    const SentenceDirectory directory(name);
    edit_config(directory.path, "{", std::string("{") + line);
    const std::string file = converted(directory.parent, directory.path);
    const TextClassifier wanted = TextClassifier::open(directory.path), found = TextClassifier::open(file);
    const std::vector<std::string_view> texts{"w7 w9 w11 w13", "w5"};
    EXPECT_LE(max_error(found.scores(found.encode(texts)), wanted.scores(wanted.encode(texts))), 1e-6)
        << line;
    convert(file, directory.parent.at("again"));
    const auto again = load_bert(directory.parent.at("again"));
    EXPECT_EQ(again->config.labels.activation, wanted.labels().activation) << line;
    EXPECT_EQ(again->config.labels.problem, wanted.labels().problem) << line;
  }
}

}  // namespace
}  // namespace ingot
