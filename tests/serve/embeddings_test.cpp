#include "tests/serve/running_server.h"
#include "tests/support/sentence_directory.h"
#include <gtest/gtest.h>

#include "ingot/infer/sentence_embedder.h"
#include "ingot/infer/text_classifier.h"

namespace ingot::serve {
namespace {

using test::Json;
using test::parsed;
using test::RunningServer;

TEST(Embeddings, AreThoseOfTheEncoderInBothEncodings) {
  const ingot::test::SentenceDirectory directory;
  const RunningServer server({.embedding_model = directory.path, .embedding_name = "encoder"});
  const SentenceEmbedder embedder = SentenceEmbedder::open(directory.path);
  const std::vector<std::string_view> texts{"w5", "w6 w7"};
  const std::vector<float> expected = embedder.embed(texts).to_vector<float>();
  HttpClient client = server.client();
  const Json answer = parsed(client.post("/v1/embeddings", R"({"model":"encoder","input":["w5","w6 w7"]})"));
  ASSERT_EQ(answer["data"].size(), 2U);
  std::vector<float> got = answer["data"][0]["embedding"];
  const std::vector<float> second = answer["data"][1]["embedding"];
  got.insert(got.end(), second.begin(), second.end());
  EXPECT_EQ(got, expected);
  EXPECT_GT(answer["usage"]["total_tokens"], 0);

  const Json packed =
      parsed(client.post("/v1/embeddings", R"({"input":"w5 w9","encoding_format":"base64"})"));
  const std::string base64 = packed["data"][0]["embedding"];
  EXPECT_EQ(base64.size(), (static_cast<std::size_t>(embedder.dimension()) * 4 + 2) / 3 * 4);

  const Json few = parsed(client.post("/v1/embeddings", R"({"input":"w5 w9","dimensions":2})"));
  const std::vector<float> shortened = few["data"][0]["embedding"];
  ASSERT_EQ(shortened.size(), 2U);
  EXPECT_NEAR(shortened[0] * shortened[0] + shortened[1] * shortened[1], 1, 1e-5);  // the directory says unit
  EXPECT_EQ(parsed(client.get("/v1/models"))["data"].back()["id"], "encoder");
}

TEST(Embeddings, SayWhatIsWrong) {
  const ingot::test::SentenceDirectory directory;
  const RunningServer server({.embedding_model = directory.path, .embedding_name = "encoder"});
  HttpClient client = server.client();
  const auto param = [&](const std::string& body) {
    return parsed(client.post("/v1/embeddings", body))["error"]["param"];
  };
  EXPECT_EQ(param("{}"), "input");
  EXPECT_EQ(param(R"({"input":[]})"), "input");
  EXPECT_EQ(param(R"({"input":"a","dimensions":100000})"), "dimensions");
  EXPECT_EQ(param(R"({"input":"a","encoding_format":"int8"})"), "encoding_format");
  EXPECT_EQ(param(R"({"input":"a","model":"scripted"})"), "model");
  EXPECT_EQ(client.post("/v1/embeddings", R"({"input":[[]]})").status, 400);
  const RunningServer without;
  EXPECT_EQ(without.client().post("/v1/embeddings", R"({"input":"a"})").status, 404);
}

TEST(Embeddings, OllamasAreTheSameWithLengthOneInItsOwnShape) {
  const ingot::test::SentenceDirectory directory;
  const RunningServer server({.embedding_model = directory.path, .embedding_name = "encoder"});
  HttpClient client = server.client();
  const Json openai = parsed(client.post("/v1/embeddings", R"({"input":["w5","w6 w7"]})"));
  const Json answer = parsed(
      client.post("/api/embed", R"({"model":"encoder:latest","input":["w5","w6 w7"],"keep_alive":"5m"})"));
  EXPECT_EQ(answer["model"], "encoder:latest");  // as it was asked for
  ASSERT_EQ(answer["embeddings"].size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<float> expected = openai["data"][i]["embedding"], got = answer["embeddings"][i];
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t k = 0; k < got.size(); ++k)
      EXPECT_NEAR(got[k], expected[k], 1e-6);  // the directory says unit
  }
  EXPECT_EQ(answer["prompt_eval_count"], openai["usage"]["prompt_tokens"]);
  EXPECT_EQ(parsed(client.post("/api/embed", R"({"input":"w5","dimensions":2})"))["embeddings"][0].size(),
            2U);
  const ClientResponse unknown = client.post("/api/embed", R"({"model":"other","input":"w5"})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(std::string(parsed(unknown)["error"]).find("other"), std::string::npos);
}

TEST(Embeddings, OllamasTakeNoTextAndAnyNumberOfDimensions) {
  const ingot::test::SentenceDirectory directory;
  const RunningServer server({.embedding_model = directory.path, .embedding_name = "encoder"});
  HttpClient client = server.client();
  for (const char* body : {R"({"input":""})", R"({"input":[]})", R"({"input":null})", "{}"}) {
    const ClientResponse none = client.post("/api/embed", body);
    EXPECT_EQ(none.status, 200) << body;
    EXPECT_EQ(parsed(none)["embeddings"], Json::array()) << body;
    EXPECT_EQ(parsed(none)["model"], "encoder") << body;
  }
  EXPECT_EQ(client.post("/api/embed", R"({"model":"other","input":""})").status, 404);
  EXPECT_EQ(client.post("/api/embed", R"({"input":5})").status, 400);
  const auto whole = static_cast<std::size_t>(SentenceEmbedder::open(directory.path).dimension());
  for (const char* dimensions : {"0", "-1", "100000"}) {
    const std::string body = std::string(R"({"input":"w5","dimensions":)") + dimensions + "}";
    EXPECT_EQ(parsed(client.post("/api/embed", body))["embeddings"][0].size(), whole) << dimensions;
  }
}

TEST(Embeddings, OllamasRefuseATextThatIsTooLongWhereItMayNotBeCut) {
  const ingot::test::SentenceDirectory directory;
  const RunningServer server({.embedding_model = directory.path, .embedding_name = "encoder"});
  HttpClient client = server.client();
  const std::int64_t most = SentenceEmbedder::open(directory.path).max_length();
  const auto ask = [&](std::int64_t words, bool truncate) {
    std::string text = "w5";
    for (std::int64_t i = 1; i < words; ++i) text += " w6";
    return client.post("/api/embed",
                       Json{{"input", Json::array({"w5", text})}, {"truncate", truncate}}.dump());
  };
  EXPECT_EQ(ask(most - 2, false).status, 200);  // [CLS] and [SEP] count
  EXPECT_EQ(ask(most - 1, true).status, 200);
  const ClientResponse refused = ask(most - 1, false);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(parsed(refused)["error"].get<std::string>().find("text 1"), std::string::npos) << refused.body;
}

TEST(Rerank, OrdersDocumentsByTheCosineOfTheirVectors) {
  const ingot::test::SentenceDirectory directory;
  const RunningServer server({.embedding_model = directory.path, .embedding_name = "encoder"});
  HttpClient client = server.client();
  const Json answer = parsed(client.post(
      "/v1/rerank",
      R"({"query":"w5 w6","documents":["w9 w3","w5 w6",{"text":"w7"}],"return_documents":true})"));
  ASSERT_EQ(answer["results"].size(), 3U) << answer;
  EXPECT_EQ(answer["results"][0]["index"], 1);
  EXPECT_EQ(answer["results"][0]["document"]["text"], "w5 w6");
  EXPECT_NEAR(answer["results"][0]["relevance_score"].get<double>(), 1, 1e-5);
  EXPECT_GE(answer["results"][1]["relevance_score"], answer["results"][2]["relevance_score"]);
  const Json best = parsed(client.post("/v2/rerank", R"({"query":"w5","documents":["w9","w5"],"top_n":1})"));
  ASSERT_EQ(best["results"].size(), 1U);
  EXPECT_EQ(best["results"][0]["index"], 1);
  // Scores are those of the vectors that /v1/embeddings gives.
  const Json vectors = parsed(client.post("/v1/embeddings", R"({"input":["w5 w6","w9 w3"]})"))["data"];
  double dot = 0;
  for (std::size_t i = 0; i < vectors[0]["embedding"].size(); ++i)
    dot += vectors[0]["embedding"][i].get<double>() * vectors[1]["embedding"][i].get<double>();
  const Json scores = parsed(client.post("/v1/score", R"({"text_1":"w5 w6","text_2":["w9 w3","w5 w6"]})"));
  EXPECT_NEAR(scores["data"][0]["score"].get<double>(), dot, 1e-5);
  const auto param = [&](const char* path, const char* body) {
    return parsed(client.post(path, body))["error"]["param"];
  };
  EXPECT_EQ(param("/v1/rerank", R"({"query":"a"})"), "documents");
  EXPECT_EQ(param("/v1/rerank", R"({"documents":["a"]})"), "query");
  EXPECT_EQ(param("/v1/rerank", R"({"query":"a","documents":["a"],"top_n":0})"), "top_n");
  EXPECT_EQ(param("/v1/score", R"({"text_1":["a","b"],"text_2":["a","b","c"]})"), "text_1");
}

TEST(Rerank, ACrossEncoderReadsQueryAndDocumentTogether) {
  const ingot::test::SentenceDirectory directory("xlm_roberta_reranker");
  const RunningServer server({.reranker_model = directory.path});
  HttpClient client = server.client();
  const TextClassifier model = TextClassifier::open(directory.path);
  const std::vector<std::string_view> documents{"w9 w3", "w5 w6", "w7"};
  const std::vector<float> expected = model.rerank("w5 w6", documents);
  const Json answer =
      parsed(client.post("/v1/rerank", R"({"query":"w5 w6","documents":["w9 w3","w5 w6","w7"]})"));
  ASSERT_EQ(answer["results"].size(), 3U) << answer;
  for (const Json& result : answer["results"])
    EXPECT_NEAR(result["relevance_score"].get<double>(), expected[result["index"].get<std::size_t>()], 1e-6);
  const Json scores = parsed(client.post("/v1/score", R"({"text_1":"w5 w6","text_2":["w9 w3"]})"));
  EXPECT_NEAR(scores["data"][0]["score"].get<double>(), expected[0], 1e-6);
  EXPECT_EQ(client.post("/v1/rerank", R"({"model":"other","query":"a","documents":["b"]})").status, 404);
  EXPECT_TRUE(client.get("/v1/models").body.find("\"sentences\"") != std::string::npos);
}

TEST(Classify, TextsGetTheirLabelsAndProbabilities) {
  const ingot::test::SentenceDirectory directory("bert_classifier");
  const RunningServer server({.reranker_model = directory.path});
  HttpClient client = server.client();
  const Json answer = parsed(client.post("/classify", R"({"input":["w5 w6","w40"]})"));
  ASSERT_EQ(answer["data"].size(), 2U) << answer;
  double sum = 0;
  for (const Json& share : answer["data"][1]["probs"]) sum += share.get<double>();
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(answer["data"][0]["num_classes"], 3);
  const RunningServer without;
  EXPECT_EQ(without.client().post("/classify", R"({"input":"a"})").status, 404);
}

}  // namespace
}  // namespace ingot::serve
