// POST /v1/rerank as Jina and Cohere have it, vLLM's /v1/score and /classify: how well texts answer a query
// by the reranker, or how near they are by the embedding model.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/answer.h"
#include "ingot/serve/api.h"
#include "ingot/serve/fields.h"

namespace ingot::serve {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostDocuments = 2048;

// Texts, or objects with one, as Cohere's older clients send them.
std::vector<std::string> read_texts(const Fields& body, const char* name) {
  std::vector<std::string> texts;
  const json* given = body.any(name);
  if (given == nullptr) throw bad_field(name, "is missing");
  for (const json& each : given->is_array() ? *given : json::array({*given})) {
    const json& text = each.is_object() && each.contains("text") ? each["text"] : each;
    if (!text.is_string()) throw bad_field(name, "must hold texts");
    texts.push_back(text.get<std::string>());
  }
  if (texts.empty() || texts.size() > kMostDocuments)
    throw bad_field(name, fmt::format("must hold 1 to {} texts, got {}", kMostDocuments, texts.size()));
  return texts;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double dot = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    dot += x * y;
    aa += x * x;
    bb += y * y;
  }
  return aa > 0 && bb > 0 ? dot / std::sqrt(aa * bb) : 0;
}

// Queries get the model's prompt for queries, documents that for documents, where it has them.
const std::string& prompt_for(const SentenceConfig& config, const char* kind) {
  for (const auto& [name, prompt] : config.prompts)
    if (name == kind) return prompt;
  return config.prompt({});
}

// What a client gets of scores: `model` made them from so many tokens.
using Answer =
    std::function<Json(const std::string& model, const std::vector<double>& scores, std::size_t tokens)>;

void send_error(const std::shared_ptr<Exchange>& exchange, const std::exception_ptr& error) {
  const ApiError problem = to_api_error(error);
  exchange->send({.status = problem.status, .body = error_json(problem)});
}

// The cosine of each document's vector with that of its query: all have the first where there is one alone.
// `answer` gets them with the tokens that were read.
void compare(const ApiContext& context, const std::shared_ptr<Exchange>& exchange, EmbeddingModel& model,
             const std::vector<std::string>& queries, const std::vector<std::string>& documents,
             Answer answer) {
  const SentenceEmbedder& embedder = model.embedder();
  const auto encode = [&](const std::vector<std::string>& texts, const std::string& prompt) {
    return embedder.encode(std::vector<std::string_view>(texts.begin(), texts.end()), prompt);
  };
  const std::string &query_prompt = prompt_for(embedder.config(), "query"),
                    &document_prompt = prompt_for(embedder.config(), "document");
  EmbeddingModel::Ids query_ids = encode(queries, query_prompt), ids = encode(documents, document_prompt);
  std::size_t tokens = 0;
  for (const auto* texts : {&query_ids, &ids})
    for (const auto& text : *texts) tokens += text.size();
  charge_tokens(context, exchange->request(), tokens);
  struct Queries {
    std::vector<float> vectors;
    std::exception_ptr error;
  };
  // Jobs are done one after another.
  const auto first = std::make_shared<Queries>();
  model.submit(std::move(query_ids), embedder.prompt_tokens(query_prompt),
               [first](const Tensor& vectors, const std::exception_ptr& error) {
                 first->error = error;
                 if (error == nullptr) first->vectors = vectors.to_vector<float>();
               });
  model.submit(std::move(ids), embedder.prompt_tokens(document_prompt),
               [=, count = queries.size(), name = model.name(), answer = std::move(answer)](
                   const Tensor& vectors, const std::exception_ptr& error) {
                 if (error != nullptr || first->error != nullptr)
                   return send_error(exchange, error != nullptr ? error : first->error);
                 const std::vector<float> numbers = vectors.to_vector<float>();
                 const auto width = static_cast<std::size_t>(vectors.dim(1));
                 std::vector<double> scores;
                 for (std::size_t i = 0; i * width < numbers.size(); ++i) {
                   const std::size_t query = count == 1 ? 0 : i;
                   scores.push_back(cosine(std::span(first->vectors).subspan(query * width, width),
                                           std::span(numbers).subspan(i * width, width)));
                 }
                 exchange->send({.body = dump_json(answer(name, scores, tokens))});
               });
}

// The score of each document with its query, read together.
void read_together(const ApiContext& context, const std::shared_ptr<Exchange>& exchange,
                   ClassifierModel& model, const std::vector<std::string>& queries,
                   const std::vector<std::string>& documents, Answer answer) {
  std::vector<TextClassifier::Pair> pairs;
  for (std::size_t i = 0; i < documents.size(); ++i)
    pairs.emplace_back(queries[queries.size() == 1 ? 0 : i], documents[i]);
  EncodedTexts texts = model.classifier().encode(pairs);
  const std::size_t tokens = texts.token_count();
  charge_tokens(context, exchange->request(), tokens);
  model.submit(std::move(texts), ScoreKind::automatic,
               [=, name = model.name(), answer = std::move(answer)](const Tensor& all,
                                                                    const std::exception_ptr& error) {
                 if (error != nullptr) return send_error(exchange, error);
                 const std::vector<float> numbers = all.to_vector<float>();
                 const auto labels = static_cast<std::size_t>(all.dim(1));
                 std::vector<double> scores;  // of the only label, or of the last
                 for (std::size_t i = labels - 1; i < numbers.size(); i += labels)
                   scores.push_back(static_cast<double>(numbers[i]));
                 exchange->send({.body = dump_json(answer(name, scores, tokens))});
               });
}

// The model that a client asked for: the reranker, where it names none and there is one.
void relate(ApiContext& context, const std::shared_ptr<Exchange>& exchange, const Fields& body,
            const std::vector<std::string>& queries, const std::vector<std::string>& documents,
            Answer answer) {
  ClassifierModel* reranker = context.classifier;
  const std::string asked = body.string("model").value_or(reranker == nullptr ? "" : reranker->name());
  if (!asked.empty()) context.access.check_model(exchange->request(), asked);
  if (reranker != nullptr && asked == reranker->name())
    return read_together(context, exchange, *reranker, queries, documents, std::move(answer));
  if (context.embedding == nullptr) {
    throw ApiError(404,
                   reranker == nullptr
                       ? "no reranker is served; start the server with --reranker-model or --embedding-model"
                       : fmt::format("the model '{}' is not served here; '{}' is", asked, reranker->name()),
                   "model", "model_not_found");
  }
  compare(context, exchange, embedding_model(context, exchange->request(), body), queries, documents,
          std::move(answer));
}

void rerank(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  const auto query = body.string("query");
  if (!query) throw bad_field("query", "is missing");
  const std::vector<std::string> documents = read_texts(body, "documents");
  const std::int64_t most = body.integer("top_n").value_or(std::ssize(documents));
  if (most < 1) throw bad_field("top_n", fmt::format("must be at least 1, got {}", most));
  const bool with_text = body.boolean("return_documents").value_or(false);
  relate(context, exchange, body, {*query}, documents,
         [=](const std::string& name, const std::vector<double>& scores, std::size_t tokens) {
           std::vector<std::size_t> order(scores.size());
           std::iota(order.begin(), order.end(), std::size_t{0});
           std::ranges::stable_sort(order,
                                    [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
           order.resize(std::min(order.size(), static_cast<std::size_t>(most)));
           Json results = Json::array();
           for (const std::size_t i : order) {
             Json result = {{"index", i}, {"relevance_score", scores[i]}};
             if (with_text) result["document"] = {{"text", documents[i]}};
             results.push_back(std::move(result));
           }
           return Json{{"id", new_id("rerank-")},
                       {"object", "list"},
                       {"model", name},
                       {"results", std::move(results)},
                       {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}},
                       {"meta", {{"billed_units", {{"search_units", 1}}}}}};
         });
}

void score(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  const std::vector<std::string> first = read_texts(body, "text_1"), second = read_texts(body, "text_2");
  if (first.size() != 1 && first.size() != second.size()) {
    throw bad_field("text_1", fmt::format("must hold one text, or as many as text_2; got {} and {}",
                                          first.size(), second.size()));
  }
  relate(context, exchange, body, first, second,
         [](const std::string& name, const std::vector<double>& scores, std::size_t tokens) {
           Json data = Json::array();
           for (std::size_t i = 0; i < scores.size(); ++i)
             data.push_back({{"index", i}, {"object", "score"}, {"score", scores[i]}});
           return Json{{"id", new_id("score-")},
                       {"object", "list"},
                       {"model", name},
                       {"data", std::move(data)},
                       {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
         });
}

void classify(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  ClassifierModel* model = context.classifier;
  const std::string asked = body.string("model").value_or(model == nullptr ? "" : model->name());
  if (!asked.empty()) context.access.check_model(exchange->request(), asked);
  if (model == nullptr || asked != model->name()) {
    throw ApiError(404,
                   model == nullptr
                       ? "no classifier is served; start the server with --reranker-model"
                       : fmt::format("the model '{}' is not served here; '{}' is", asked, model->name()),
                   "model", "model_not_found");
  }
  const std::vector<std::string> texts = read_texts(body, "input");
  EncodedTexts ids = model->classifier().encode(std::vector<std::string_view>(texts.begin(), texts.end()));
  const std::size_t tokens = ids.token_count();
  charge_tokens(context, exchange->request(), tokens);
  model->submit(
      std::move(ids), ScoreKind::automatic, [=](const Tensor& all, const std::exception_ptr& error) {
        if (error != nullptr) return send_error(exchange, error);
        const std::vector<float> numbers = all.to_vector<float>();
        const auto labels = static_cast<std::size_t>(all.dim(1));
        Json data = Json::array();
        for (std::size_t i = 0; i * labels < numbers.size(); ++i) {
          const auto row = std::span(numbers).subspan(i * labels, labels);
          data.push_back({{"index", i},
                          {"label", model->classifier().ranked(row).front().label},
                          {"probs", std::vector<float>(row.begin(), row.end())},
                          {"num_classes", labels}});
        }
        exchange->send(
            {.body = dump_json(Json{{"id", new_id("classify-")},
                                    {"object", "list"},
                                    {"model", model->name()},
                                    {"data", std::move(data)},
                                    {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})});
      });
}

}  // namespace

std::vector<Route> rerank_routes() {
  return {{"POST", "/v1/rerank", rerank},
          {"POST", "/v2/rerank", rerank},
          {"POST", "/v1/score", score},
          {"POST", "/classify", classify}};
}

}  // namespace ingot::serve
