// OpenAI's POST /v1/embeddings, and Ollama's POST /api/embed.
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/api.h"
#include "ingot/serve/fields.h"

namespace ingot::serve {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostTexts = 2048;

std::string base64(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) word = word << 8U | (i + k < bytes.size() ? bytes[i + k] : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? kDigits[word >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

struct Input {
  EmbeddingModel::Ids ids;
  std::int64_t prompt_tokens = 0;
};

void check_lengths(const EmbeddingModel::Ids& texts, std::int64_t most) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (std::ssize(texts[i]) > most)
      throw bad_field("input", fmt::format("has {} tokens in text {}, the model takes {}; shorten it, or "
                                           "leave out 'truncate' to have its end cut off",
                                           texts[i].size(), i, most));
  }
}

// A string, a list of them, ids, or lists of ids. Text gets the prompt that the model's files name; what is
// longer than the model takes is cut, or refused.
Input read_input(const Fields& body, const SentenceEmbedder& embedder, bool cut = true) {
  const json* input = body.any("input");
  if (input == nullptr) throw bad_field("input", "is missing");
  Input result;
  EmbeddingModel::Ids& ids = result.ids;
  if (input->is_array() && !input->empty() && input->front().is_number()) {
    ids.push_back(*body.ids("input"));
  } else if (input->is_array() && !input->empty() && input->front().is_array()) {
    for (const json& each : *input) {
      const json one = {{"input", each}};
      ids.push_back(*Fields(one).ids("input"));
    }
  } else {
    const auto texts = body.strings("input").value_or(std::vector<std::string>());
    const std::string& prompt = embedder.config().prompt({});
    ids = embedder.encode(std::vector<std::string_view>(texts.begin(), texts.end()), prompt, cut);
    if (!cut) check_lengths(ids, embedder.max_length());
    result.prompt_tokens = embedder.prompt_tokens(prompt);
  }
  if (ids.empty() || ids.size() > kMostTexts)
    throw bad_field("input", fmt::format("must hold 1 to {} texts, got {}", kMostTexts, ids.size()));
  return result;
}

// The first numbers of a vector, of length 1 where asked for.
std::vector<float> first_of(std::span<const float> row, std::size_t length, bool to_unit) {
  std::vector<float> result(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(length));
  if (!to_unit) return result;
  double squares = 0;
  for (const float x : result) squares += static_cast<double>(x) * static_cast<double>(x);
  const double norm = std::sqrt(squares);
  for (float& x : result) x = norm > 0 ? static_cast<float>(static_cast<double>(x) / norm) : x;
  return result;
}

std::size_t read_dimensions(const Fields& body, const SentenceEmbedder& embedder) {
  const std::int64_t length = body.integer("dimensions").value_or(embedder.dimension());
  if (length < 1 || length > embedder.dimension())
    throw bad_field("dimensions", fmt::format("must be 1 to {}, got {}", embedder.dimension(), length));
  return static_cast<std::size_t>(length);
}

std::size_t token_count(const EmbeddingModel::Ids& texts) {
  std::size_t tokens = 0;
  for (const auto& text : texts) tokens += text.size();
  return tokens;
}

// Calls row(numbers) for each of the vectors.
void for_each_row(const Tensor& vectors, const std::function<void(std::span<const float>)>& row) {
  const std::vector<float> numbers = vectors.to_vector<float>();
  const auto width = static_cast<std::size_t>(vectors.dim(1));
  for (std::size_t at = 0; at < numbers.size(); at += width) row(std::span(numbers).subspan(at, width));
}

void embeddings(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  EmbeddingModel& model = embedding_model(context, exchange->request(), body);
  const SentenceEmbedder& embedder = model.embedder();
  const std::string format = body.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    throw bad_field("encoding_format", "must be 'float' or 'base64', got '" + format + "'");
  const std::size_t length = read_dimensions(body, embedder);
  // What is shortened is of length 1 again where the whole is.
  const bool to_unit =
      embedder.config().normalizes() && static_cast<std::int64_t>(length) < embedder.dimension();
  Input input = read_input(body, embedder);
  const std::size_t tokens = token_count(input.ids);
  charge_tokens(context, exchange->request(), tokens);
  model.submit(std::move(input.ids), input.prompt_tokens,
               [=, name = model.name()](const Tensor& vectors, const std::exception_ptr& error) {
                 if (error != nullptr) {
                   const ApiError problem = to_api_error(error);
                   return exchange->send({.status = problem.status, .body = error_json(problem)});
                 }
                 Json data = Json::array();
                 for_each_row(vectors, [&](std::span<const float> whole) {
                   const std::vector<float> row = first_of(whole, length, to_unit);
                   Json entry = {{"object", "embedding"}, {"index", data.size()}};
                   if (format == "float") {
                     entry["embedding"] = row;
                   } else {
                     std::vector<unsigned char> bytes(row.size() * sizeof(float));
                     std::memcpy(bytes.data(), row.data(), bytes.size());
                     entry["embedding"] = base64(bytes);
                   }
                   data.push_back(std::move(entry));
                 });
                 exchange->send({.body = dump_json(Json{
                                     {"object", "list"},
                                     {"data", std::move(data)},
                                     {"model", name},
                                     {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})});
               });
}

// An empty input embeds nothing, as in Ollama.
bool has_input(const Fields& body) {
  const json* input = body.any("input");
  if (input == nullptr) return false;
  return input->is_string() ? !input->get_ref<const std::string&>().empty()
                            : !input->is_array() || !input->empty();
}

// Ollama shortens vectors only where the model's are longer than what is asked for.
std::size_t ollama_dimensions(const Fields& body, const SentenceEmbedder& embedder) {
  const std::int64_t length = body.integer("dimensions").value_or(0), whole = embedder.dimension();
  return static_cast<std::size_t>(length > 0 && length < whole ? length : whole);
}

std::string ollama_embed_json(const std::string& model, Json rows, std::chrono::nanoseconds took,
                              std::size_t tokens) {
  return dump_json(Json{{"model", model},
                        {"embeddings", std::move(rows)},
                        {"total_duration", took.count()},
                        {"load_duration", 0},
                        {"prompt_eval_count", tokens}});
}

// Ollama's vectors have length 1, whatever the encoder's have.
void ollama_embed(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const auto start = std::chrono::steady_clock::now();
  json parsed = parse_body(exchange->request().body);
  std::string asked;  // the answer has the name as it was asked for
  if (const auto name = parsed.find("model"); name != parsed.end() && name->is_string()) {
    asked = name->get<std::string>();
    *name = without_latest(asked);
  }
  const Fields body(parsed);
  EmbeddingModel& model = embedding_model(context, exchange->request(), body);
  if (asked.empty()) asked = model.name();
  const std::size_t length = ollama_dimensions(body, model.embedder());
  const bool cut = body.boolean("truncate").value_or(true);
  if (!has_input(body)) {
    return exchange->send(
        {.body = ollama_embed_json(asked, Json::array(), std::chrono::nanoseconds::zero(), 0)});
  }
  Input input = read_input(body, model.embedder(), cut);
  const std::size_t tokens = token_count(input.ids);
  charge_tokens(context, exchange->request(), tokens);
  model.submit(
      std::move(input.ids), input.prompt_tokens, [=](const Tensor& vectors, const std::exception_ptr& error) {
        if (error != nullptr) {
          const ApiError problem = to_api_error(error);
          return exchange->send(error_response(problem, ollama_error_json(problem)));
        }
        Json rows = Json::array();
        for_each_row(vectors,
                     [&](std::span<const float> whole) { rows.push_back(first_of(whole, length, true)); });
        const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
        exchange->send({.body = ollama_embed_json(asked, std::move(rows), took, tokens)});
      });
}

}  // namespace

EmbeddingModel& embedding_model(const ApiContext& context, const HttpRequest& request, const Fields& body) {
  if (context.embedding == nullptr) {
    throw ApiError(404, "no embedding model is served; start the server with --embedding-model", "model",
                   "model_not_found");
  }
  EmbeddingModel& model = *context.embedding;
  const std::string name = body.string("model").value_or(model.name());
  context.access.check_model(request, name);
  if (name == model.name()) return model;
  throw ApiError(404, fmt::format("the model '{}' is not served here; '{}' is", name, model.name()), "model",
                 "model_not_found");
}

std::vector<Route> embedding_routes() {
  return {{"POST", "/v1/embeddings", embeddings},
          {.method = "POST", .path = "/api/embed", .handler = ollama_embed, .error_body = ollama_error_json}};
}

}  // namespace ingot::serve
