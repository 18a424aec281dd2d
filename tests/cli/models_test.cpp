#include <array>
#include <filesystem>
#include <limits>

#include "tests/cli/process.h"
#include "tests/support/sentence_directory.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/web_server.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/weights/npy.h"
#include "ingot/weights/onnx_file.h"
#include "ingot/weights/open.h"

// Commands about models: pull, models, inspect, onnx, embed.

namespace ingot::testing {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

const std::string kTests = test::source_dir() + "/tests/";
const std::string kGoldens = kTests + "models/goldens/";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Outcome succeed(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}) {
  Outcome outcome = run_ingot(arguments, environment);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
  return outcome;
}

nlohmann::json parsed(const Outcome& outcome) {
  return parse_json_or_discard<nlohmann::json>(outcome.output);
}

TEST(ModelsCommand, ListsEveryFamilyAndExplainsOne) {
  const std::string all = succeed({"models"}).output;
  for (const char* name : {"llama", "qwen3_moe", "bert", "patchtst", "dlinear"})
    EXPECT_TRUE(contains(all, name)) << name;
  const std::string by_name = succeed({"models", "gemma2"}).output;
  EXPECT_TRUE(contains(by_name, "google/gemma-2-2b"));
  EXPECT_EQ(succeed({"models", "Gemma2ForCausalLM"}).output, by_name);
  EXPECT_FALSE(contains(succeed({"models", "dlinear"}).output, "such as"));
  EXPECT_EQ(parsed(succeed({"models", "patchtst", "--json"}))["tasks"], nlohmann::json({"forecast"}));
  EXPECT_EQ(parsed(succeed({"models", "cohere", "--json"}))["gguf"], "command-r");
  const Outcome unknown = run_ingot({"models", "lama"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(contains(unknown.errors, "did you mean 'llama'")) << unknown.errors;
}

TEST(InspectCommand, ShowsAllOfATensorOnATerminalWhereItsNameIsLong) {
  const TemporaryDirectory directory;
  const std::array<float, 4> values{1.5F, -2.0F, 0.0F, std::numeric_limits<float>::quiet_NaN()};
  write_file_atomically(directory.at("values.bin"),
                        {reinterpret_cast<const char*>(values.data()), sizeof(values)});
  const std::string name(90, 'n');
  const Outcome outcome = run_ingot_on_terminal(
      {"inspect", directory.at("values.bin"), "--raw", "a=f32[4]@0", "--raw", name + "=f32[4]@0", "--stats"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const std::string stats = "\r\n    -2 … 1.5 mean -0.1667 std 1.434 1 zeros 1 NOT FINITE\r\n";
  EXPECT_TRUE(outcome.output.starts_with("a ")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "16 B" + stats + name + "\r\n    f32   [4]        16 B" + stats))
      << outcome.output;
}

TEST(InspectCommand, TellsWhatADirectoryIsAndWhetherItFits) {
  const std::string fitting = succeed({"inspect", kGoldens + "qwen3"}).output;
  EXPECT_TRUE(contains(fitting, "qwen3, 2 layers"));
  EXPECT_TRUE(contains(fitting, "fits its config.json"));
  EXPECT_TRUE(
      contains(succeed({"inspect", kGoldens + "forecast/transformers_mixing"}).output, "channel-mixing"));
  EXPECT_TRUE(contains(succeed({"inspect", kGoldens + "gguf/mixtral.gguf"}).output, "mixtral, 2 layers"));
  const auto json = parsed(succeed({"inspect", kGoldens + "qwen3", "--json", "--stats"}));
  EXPECT_TRUE(json["architecture"]["fits"].get<bool>());
  EXPECT_EQ(json["tensors"][0]["stats"]["not_finite"], 0);
}

TEST(InspectCommand, AConfigThatNamesNoModelIsSaidAndTheTensorsAreListed) {
  const TemporaryDirectory directory;
  fs::copy_file(kGoldens + "qwen3/model.safetensors", directory.at("model.safetensors"));
  const auto inspect = [&](const std::string& config) {
    write_file_atomically(directory.at("config.json"), config);
    return run_ingot({"inspect", directory.path()});
  };
  const Outcome empty = inspect("{}");
  EXPECT_EQ(empty.exit_code, 0) << empty.errors;
  EXPECT_TRUE(contains(empty.output, "config.json names no model_type")) << empty.output;
  EXPECT_TRUE(contains(empty.output, "model.norm.weight"));
  EXPECT_TRUE(contains(inspect(R"({"model_type": "qwen"})").output, "did you mean 'qwen2'"));
  const Outcome broken = inspect("{\"model_type\"");
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_TRUE(contains(broken.errors, "config.json")) << broken.errors;
}

TEST(InspectCommand, AFileWithoutAHeaderIsReadAsItIsSaidToBe) {
  const TemporaryDirectory directory;
  write_file_atomically(directory.at("w.bin"), std::string(24, '\0'));
  const auto json = parsed(succeed({"inspect", directory.at("w.bin"), "--raw", "f32[-1,3]", "--json"}));
  EXPECT_EQ(json["format"], "raw");
  EXPECT_EQ(json["tensors"][0]["shape"], nlohmann::json({2, 3}));
  succeed({"convert", directory.at("w.bin"), directory.at("w.safetensors"), "--raw", "a=f16[4]", "--raw",
           "b=i64[2]"});
  EXPECT_EQ(open_weights(directory.at("w.safetensors"))->get_metadata("b").dtype, DType::i64);
  const Outcome wrong = run_ingot({"inspect", directory.at("w.bin"), "--raw", "f32[7]"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_TRUE(contains(wrong.errors, "takes 28 bytes")) << wrong.errors;
}

TEST(ConvertCommand, AGgufModelInPartsGivesTheSameTensors) {
  const TemporaryDirectory directory;
  const auto json = parsed(
      succeed({"convert", kGoldens + "qwen3", directory.at("m.gguf"), "--shard-size", "10KB", "--json"}));
  const std::string first = json["path"];
  EXPECT_TRUE(contains(first, "m-00001-of-")) << first;
  EXPECT_FALSE(fs::exists(directory.at("m.gguf")));
  succeed({"convert", kGoldens + "qwen3", directory.at("whole.gguf")});
  const auto parts = open_weights(first), whole = open_weights(directory.at("whole.gguf"));
  ASSERT_EQ(parts->tensors().size(), whole->tensors().size());
  for (const TensorInfo& info : whole->tensors())
    EXPECT_EQ(parts->load_tensor(info.name).to_vector<float>(),
              whole->load_tensor(info.name).to_vector<float>());
  EXPECT_TRUE(contains(succeed({"inspect", first}).output, "qwen3, 2 layers"));
}

TEST(OnnxCommand, RunsAGraphOnNumpyFilesAndChecksIt) {
  const TemporaryDirectory directory;
  const std::string golden = kTests + "onnx/goldens/mlp_dynamo/";
  write_npy(directory.at("x.npy"), OnnxFile::read_tensor(golden + "test_data_set_0/input_0.pb"));
  const auto json = parsed(succeed({"onnx", "run", golden + "model.onnx", "--input",
                                    "x=" + directory.at("x.npy"), "-o", directory.at("out"), "--json"}));
  const std::vector<float> found = read_npy(json[0]["path"].get<std::string>()).to_vector<float>();
  const Tensor expected = OnnxFile::read_tensor(golden + "test_data_set_0/output_0.pb");
  const std::vector<float> values = expected.to_vector<float>();
  ASSERT_EQ(found.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(found[i], values[i], 1e-5);
  const std::string check = succeed({"onnx", "check", golden + "model.onnx"}).output;
  EXPECT_TRUE(contains(check, "every operator is supported")) << check;
}

TEST(OnnxCommand, TakesAndGivesUnsignedNumbersOf16Bits) {
  const TemporaryDirectory directory;
  // y = Add(a, b) of UINT16 [4].
  const std::string model(
      "\x08\x0a\x3a\x3a\x0a\x0e\x0a\x01\x61\x0a\x01\x62\x12\x01\x79\x22\x03\x41\x64\x64\x12\x01\x67\x5a"
      "\x0f\x0a\x01\x61\x12\x0a\x0a\x08\x08\x04\x12\x04\x0a\x02\x08\x04\x5a\x0f\x0a\x01\x62\x12\x0a\x0a"
      "\x08\x08\x04\x12\x04\x0a\x02\x08\x04\x62\x03\x0a\x01\x79\x42\x04\x0a\x00\x10\x15",
      68);
  const auto put = [&](const std::string& name, std::uint16_t value) {
    std::string bytes = npy_header({4}, "<u2");
    for (int i = 0; i < 4; ++i) {
      bytes += static_cast<char>(value & 255);
      bytes += static_cast<char>(value >> 8);
    }
    write_file_atomically(directory.at(name), bytes);
    return directory.at(name);
  };
  write_file_atomically(directory.at("m.onnx"), model);
  const std::string a = put("a.npy", 65000), b = put("b.npy", 537);  // which wraps to 1
  succeed({"onnx", "run", directory.at("m.onnx"), "--input", "a=" + a, "--input", "b=" + b, "-o",
           directory.at("out")});
  const std::string out = read_file(directory.at("out/y.npy"));
  EXPECT_TRUE(contains(out, "'<u2'")) << out;
  EXPECT_EQ(out.substr(out.size() - 2), std::string("\x01\0", 2));
}

// NumPy has no bf16: what check accepts, run writes.
TEST(OnnxCommand, WritesBf16AndFp8AsTheSameNumbersInF32) {
  const TemporaryDirectory directory;
  // y = Cast([1.5, -3], to = BFLOAT16)
  std::string model(
      "\x08\x08\x3a\x34\x0a\x17\x0a\x01\x78\x12\x01\x79\x22\x04\x43\x61\x73\x74\x2a\x09\x0a\x02\x74\x6f"
      "\x18\x10\xa0\x01\x02\x12\x01\x67\x2a\x11\x08\x02\x10\x01\x22\x08\x00\x00\xc0\x3f\x00\x00\x40\xc0"
      "\x42\x01\x78\x62\x03\x0a\x01\x79\x42\x04\x0a\x00\x10\x15",
      62);
  for (const char type : {'\x10', '\x11'}) {  // FLOAT8E4M3FN is the second
    model[model.find("\x74\x6f\x18") + 3] = type;
    write_file_atomically(directory.at("m.onnx"), model);
    succeed({"onnx", "check", directory.at("m.onnx")});
    succeed({"onnx", "run", directory.at("m.onnx"), "-o", directory.at("out")});
    const Tensor y = read_npy(directory.at("out/y.npy"));
    EXPECT_EQ(y.dtype(), DType::f32);
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1.5F, -3}));
  }
}

// What NumPy's strings take in a file is seen beforehand: all are as long as the longest, of four bytes each.
TEST(OnnxCommand, CheckRefusesOutputsThatARunCannotWrite) {
  const TemporaryDirectory directory;
  // y = Expand("abcdefgh", [2000000])
  const std::string model(
      "\x08\x0a\x3a\x3e\x0a\x13\x0a\x01\x78\x0a\x01\x73\x12\x01\x79\x22\x06\x45\x78\x70\x61\x6e\x64\x3a"
      "\x00\x12\x01\x67\x2a\x11\x08\x01\x10\x08\x32\x08\x61\x62\x63\x64\x65\x66\x67\x68\x42\x01\x78\x2a"
      "\x0c\x08\x01\x10\x07\x3a\x03\x80\x89\x7a\x42\x01\x73\x62\x03\x0a\x01\x79\x42\x04\x0a\x00\x10\x15",
      72);
  write_file_atomically(directory.at("m.onnx"), model);
  for (const std::string verb : {"check", "run"}) {
    std::vector<std::string> words{"onnx", verb, directory.at("m.onnx"), "--max-memory", "48MiB"};
    if (verb == "run") words.insert(words.end(), {"-o", directory.at("out")});
    const Outcome outcome = run_ingot(words);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_TRUE(contains(outcome.output + outcome.errors, "2000000 elements of 32 bytes")) << outcome.errors;
  }
  EXPECT_FALSE(std::filesystem::exists(directory.at("out")));
  succeed({"onnx", "check", directory.at("m.onnx"), "--max-memory", "256MiB"});
}

TEST(OnnxCommand, InputsThatAreNotThereOrNotReadableAreNamed) {
  const std::string model = kTests + "onnx/goldens/mlp_dynamo/model.onnx";
  const auto errors = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"onnx", "run", model};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_ingot(words);
    EXPECT_NE(outcome.exit_code, 0);
    return outcome.errors;
  };
  EXPECT_TRUE(contains(errors({}), "is an input of"));
  EXPECT_TRUE(contains(errors({"--input", "x.npy"}), "not a name=file.npy"));
  EXPECT_TRUE(contains(errors({"--input", "x=/no/such.npy"}), "/no/such.npy"));
  EXPECT_TRUE(contains(errors({"--device", "cuda:99"}), "cuda:99"));
  EXPECT_NE(run_ingot({"onnx", "check", "/no/such.onnx"}).exit_code, 0);
}

TEST(EmbedCommand, VectorsComeAsSimilaritiesNumpyOrJson) {
  const test::SentenceDirectory model;
  const std::vector<std::string> texts{"embed", model.path, "-t", "w5 w6 w7", "-t", "w5 w6 w7", "-t", "w40"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = texts;
    words.insert(words.end(), more.begin(), more.end());
    return succeed(words);
  };
  EXPECT_TRUE(contains(with({}).output, " 1.0000 1.0000 ")) << with({}).output;
  const auto json = parsed(with({"--json"}));
  ASSERT_EQ(json["embeddings"].size(), 3U);
  EXPECT_EQ(json["embeddings"][0], json["embeddings"][1]);
  EXPECT_EQ(json["dimension"], json["embeddings"][2].size());
  const std::string file = model.parent.at("v.npy"), lines = model.parent.at("lines.txt");
  write_file_atomically(lines, "w5 w6 w7\nw40\n");
  succeed({"embed", model.path, "-f", lines, "-o", file});
  const Tensor stored = read_npy(file);
  EXPECT_EQ(stored.dim(0), 2);
  EXPECT_NEAR(stored.to_vector<float>()[0], json["embeddings"][0][0].get<float>(), 1e-5);
}

TEST(EmbedCommand, WithoutTextsOrWithoutAnEncoderItSaysWhatIsMissing) {
  const test::SentenceDirectory model;
  EXPECT_NE(run_ingot({"embed", model.path, "-t", "w5", "--device", "cuda:99"}).errors.find("cuda:99"),
            std::string::npos);
  const Outcome nothing = run_ingot({"embed", model.path});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_TRUE(contains(nothing.errors, "--text")) << nothing.errors;
  const Outcome decoder = run_ingot({"embed", kGoldens + "qwen3", "-t", "a"});
  EXPECT_NE(decoder.exit_code, 0);
  EXPECT_TRUE(contains(decoder.errors, "tokenizer")) << decoder.errors;
}

TEST(ClassifyCommand, TextsGetLabelsAndTokensGetSpans) {
  const test::SentenceDirectory texts("bert_classifier"), tokens("bert_names");
  const Outcome shown = succeed({"classify", texts.path, "-t", "w5 w6 w7", "-t", "w40", "--top", "3"});
  for (const char* label : {"low", "middle", "high"})
    EXPECT_TRUE(contains(shown.output, label)) << shown.output;
  const auto json = parsed(succeed({"classify", texts.path, "-t", "w5 w6 w7", "--json"}));
  ASSERT_EQ(json["labels"].size(), 3U);
  EXPECT_GE(json["labels"][0]["score"], json["labels"][1]["score"]);
  const auto names = parsed(succeed({"classify", tokens.path, "-t", "w5 w6 w7 w8 w9", "--json"}));
  for (const auto& span : names["spans"]) EXPECT_NE(span["label"], "O");
}

TEST(ClassifyCommand, AModelWithoutLabelsIsRefusedByName) {
  const test::SentenceDirectory model;
  const Outcome outcome = run_ingot({"classify", model.path, "-t", "w5"});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_TRUE(contains(outcome.errors, "is not a classifier")) << outcome.errors;
}

TEST(RerankCommand, DocumentsComeBestFirst) {
  const test::SentenceDirectory model("bert_classifier");
  const auto json = parsed(succeed(
      {"rerank", model.path, "-q", "w5 w6", "-t", "w7 w8", "-t", "w30 w31 w32", "-t", "w60", "--json"}));
  ASSERT_EQ(json["results"].size(), 3U);
  for (std::size_t i = 1; i < 3; ++i) EXPECT_GE(json["results"][i - 1]["score"], json["results"][i]["score"]);
  const auto best = parsed(succeed(
      {"rerank", model.path, "-q", "w5 w6", "-t", "w7 w8", "-t", "w30 w31 w32", "--top", "1", "--json"}));
  EXPECT_EQ(best["results"].size(), 1U);
}

// The Hub is a server on loopback, with a cache of the test's own.
class PullCommand : public ::testing::Test {
 protected:
  PullCommand() {
    for (const char* name : {"config.json", "model.safetensors"})
      server_.add_repo_file("org/tiny", name, read_file(kGoldens + "qwen3/" + name));
    server_.add_repo_file("org/tiny", "README.md", "# tiny");
  }
  Outcome ingot(const std::vector<std::string>& arguments, const std::string& more = "HF_TOKEN=") {
    return run_ingot(arguments,
                     {"HF_ENDPOINT=" + server_.address(), "HF_HOME=" + server_.directory() + "/home",
                      "HF_HUB_CACHE=" + server_.cache(), "HF_HUB_OFFLINE=0", more});
  }
  test::WebServer server_;
};

TEST_F(PullCommand, TheCacheIsListedAndPrunedAndAModelFetchedWhereTheUserAgrees) {
  const std::string own = "INGOT_CACHE_DIR=" + server_.directory() + "/own";
  const auto entries = [&] { return parsed(ingot({"cache", "list", "--json"}, own))["entries"]; };
  EXPECT_TRUE(entries().empty());
  const Outcome unasked = ingot({"generate", "org/tiny", "-p", "a"}, own);
  EXPECT_TRUE(contains(unasked.errors, "ingot pull org/tiny, or --yes")) << unasked.errors;
  EXPECT_TRUE(entries().empty());
  ingot({"generate", "org/tiny", "-p", "a", "--yes"}, own);
  ASSERT_EQ(entries().size(), 1U);
  EXPECT_EQ(entries()[0]["name"], "org/tiny");
  const Outcome kept = ingot({"cache", "prune", "--max", "1GB"}, own);
  EXPECT_TRUE(contains(kept.output, "0 B freed")) << kept.output;
  const Outcome shown = ingot({"cache", "prune", "--max", "1kB", "--dry-run"}, own);
  EXPECT_TRUE(contains(shown.output, "org/tiny") && contains(shown.output, "would be freed")) << shown.output;
  ASSERT_EQ(entries().size(), 1U);
  EXPECT_EQ(ingot({"cache", "rm", "org/tiny"}, own).exit_code, 0);
  EXPECT_TRUE(entries().empty());
  EXPECT_EQ(ingot({"cache", "rm", "org/tiny"}, own).exit_code, 2);
}

TEST_F(PullCommand, FetchesAModelOnceAndOtherVerbsFindItByName) {
  const Outcome first = ingot({"pull", "org/tiny"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const std::string path = first.output.substr(0, first.output.find('\n'));
  EXPECT_EQ(read_file(path + "/config.json"), read_file(kGoldens + "qwen3/config.json"));
  EXPECT_FALSE(contains(first.errors, "; 0 of them fetched"));
  const auto again = parsed(ingot({"pull", "org/tiny", "--json"}));
  ASSERT_FALSE(again["files"].empty());
  for (const auto& file : again["files"]) EXPECT_FALSE(file["fetched"].get<bool>()) << file;
  const Outcome inspected = ingot({"inspect", "org/tiny"}, "HF_HUB_OFFLINE=1");
  EXPECT_TRUE(contains(inspected.output, "qwen3, 2 layers")) << inspected.errors;
}

TEST_F(PullCommand, TakesWhatIsAskedForToWhereItIsAskedFor) {
  const std::string to = server_.directory() + "/plain";
  const Outcome outcome = ingot({"pull", "org/tiny", "--include", "*.md", "--to", to});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(read_file(to + "/README.md"), "# tiny");
  EXPECT_FALSE(fs::exists(to + "/config.json"));
}

TEST_F(PullCommand, ARepositoryThatIsNotThereOrNotOpenIsExplained) {
  const Outcome missing = ingot({"pull", "org/none"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_TRUE(contains(missing.errors, "org/none")) << missing.errors;
  server_.add_repo_file("org/private-x", "config.json", "{}");
  const Outcome secret = ingot({"pull", "org/private-x"});
  EXPECT_NE(secret.exit_code, 0);
  EXPECT_TRUE(contains(secret.errors, "HF_TOKEN")) << secret.errors;
  EXPECT_EQ(ingot({"pull", "org/private-x", "--include", "*"}, "HF_TOKEN=hf_test_token").exit_code, 0);
  EXPECT_NE(ingot({"pull", "not a repo"}).exit_code, 0);
}

}  // namespace
}  // namespace ingot::testing
