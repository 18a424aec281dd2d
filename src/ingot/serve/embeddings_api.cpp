// OpenAI's POST /v1/embeddings.
#include <cmath>
#include <cstring>
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

// A string, a list of them, ids, or lists of ids. Text gets the prompt that the model's files name.
Input read_input(const Fields& body, const SentenceEmbedder& embedder) {
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
    ids = embedder.encode(std::vector<std::string_view>(texts.begin(), texts.end()), prompt);
    result.prompt_tokens = embedder.prompt_tokens(prompt);
  }
  if (ids.empty() || ids.size() > kMostTexts)
    throw bad_field("input", fmt::format("must hold 1 to {} texts, got {}", kMostTexts, ids.size()));
  return result;
}

// The first numbers of a vector; of a shorter one again of length 1 where the whole is.
std::vector<float> shortened(std::span<const float> row, std::size_t length, bool normalized) {
  std::vector<float> result(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(length));
  if (!normalized || length == row.size()) return result;
  double squares = 0;
  for (const float x : result) squares += static_cast<double>(x) * static_cast<double>(x);
  const double norm = std::sqrt(squares);
  for (float& x : result) x = norm > 0 ? static_cast<float>(static_cast<double>(x) / norm) : x;
  return result;
}

void embeddings(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  EmbeddingModel& model = embedding_model(context, body);
  const SentenceEmbedder& embedder = model.embedder();
  const std::string format = body.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    throw bad_field("encoding_format", "must be 'float' or 'base64', got '" + format + "'");
  const std::int64_t length = body.integer("dimensions").value_or(embedder.dimension());
  if (length < 1 || length > embedder.dimension())
    throw bad_field("dimensions", fmt::format("must be 1 to {}, got {}", embedder.dimension(), length));
  Input input = read_input(body, embedder);
  std::size_t tokens = 0;
  for (const auto& text : input.ids) tokens += text.size();
  model.submit(std::move(input.ids), input.prompt_tokens,
               [=, name = model.name(), normalized = embedder.config().normalizes()](
                   const Tensor& vectors, const std::exception_ptr& error) {
                 if (error != nullptr) {
                   const ApiError problem = to_api_error(error);
                   return exchange->send({.status = problem.status, .body = error_json(problem)});
                 }
                 const std::vector<float> numbers = vectors.to_vector<float>();
                 const auto width = static_cast<std::size_t>(vectors.dim(1));
                 Json data = Json::array();
                 for (std::size_t i = 0; i * width < numbers.size(); ++i) {
                   const std::vector<float> row = shortened(std::span(numbers).subspan(i * width, width),
                                                            static_cast<std::size_t>(length), normalized);
                   Json entry = {{"object", "embedding"}, {"index", i}};
                   if (format == "float") {
                     entry["embedding"] = row;
                   } else {
                     std::vector<unsigned char> bytes(row.size() * sizeof(float));
                     std::memcpy(bytes.data(), row.data(), bytes.size());
                     entry["embedding"] = base64(bytes);
                   }
                   data.push_back(std::move(entry));
                 }
                 exchange->send({.body = dump_json(Json{
                                     {"object", "list"},
                                     {"data", std::move(data)},
                                     {"model", name},
                                     {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})});
               });
}

}  // namespace

EmbeddingModel& embedding_model(const ApiContext& context, const Fields& body) {
  if (context.embedding == nullptr) {
    throw ApiError(404, "no embedding model is served; start the server with --embedding-model", "model",
                   "model_not_found");
  }
  EmbeddingModel& model = *context.embedding;
  const std::string name = body.string("model").value_or(model.name());
  if (name == model.name()) return model;
  throw ApiError(404, fmt::format("the model '{}' is not served here; '{}' is", name, model.name()), "model",
                 "model_not_found");
}

std::vector<Route> embedding_routes() { return {{"POST", "/v1/embeddings", embeddings}}; }

}  // namespace ingot::serve
