#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/text_inputs.h"
#include "ingot/core/device_config.h"
#include "ingot/hub/resolve.h"
#include "ingot/infer/sentence_embedder.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"
#include "ingot/weights/npy.h"

namespace ingot::cli {
namespace {

struct EmbedOptions {
  std::string model, output, format = "as stored", device = "auto", prompt, prompt_name;
  TextInputs inputs;
  std::int64_t dimensions = 0;  // 0: all
  bool json = false;
};

// What a person wants to see of vectors: which texts are near each other.
void print_similarities(const std::vector<std::string>& texts, const Tensor& vectors, bool normalized) {
  const std::vector<float> products = matmul(vectors, transpose(vectors, 0, 1)).to_vector<float>();
  const std::size_t n = texts.size();
  const auto at = [&](std::size_t i, std::size_t j) {
    const double product = products[i * n + j];
    return normalized ? product
                      : product / std::sqrt(static_cast<double>(products[i * n + i]) * products[j * n + j]);
  };
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) fmt::print("{:7.4f}", at(i, j));
    fmt::print("  {}\n", shortened(texts[i]));
  }
}

// Whether vectors have length 1: what is cut off one has not.
bool is_normalized(const EmbedOptions& o, const SentenceEmbedder& embedder) {
  return embedder.config().normalizes() && o.dimensions == 0;
}

void print_json(const EmbedOptions& o, const SentenceEmbedder& embedder,
                const std::vector<std::vector<std::int32_t>>& ids, const Tensor& vectors) {
  std::vector<std::string_view> poolings;
  for (const Pooling pooling : embedder.config().poolings) poolings.push_back(name(pooling));
  nlohmann::ordered_json json{{"dimension", vectors.dim(1)},
                              {"pooling", fmt::format("{}", fmt::join(poolings, ", "))},
                              {"normalized", is_normalized(o, embedder)}};
  std::size_t tokens = 0;
  for (const auto& text : ids) tokens += text.size();
  json["tokens"] = tokens;
  if (o.output.empty()) {
    const std::vector<float> numbers = vectors.to_vector<float>();
    const auto width = static_cast<std::ptrdiff_t>(vectors.dim(1));
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (auto row = numbers.begin(); row != numbers.end(); row += width) {
      list.push_back(std::vector<float>(row, row + width));
    }
    json["embeddings"] = list;
  } else {
    json["path"] = o.output;
  }
  fmt::print("{}\n", printable_json(dump_json(json)));
}

int run(const EmbedOptions& o) {
  const std::vector<std::string> texts = o.inputs.read();
  const SentenceEmbedder embedder = SentenceEmbedder::open(
      hub::resolve_model(o.model),
      encoder_options(o.format == "as stored" ? "" : o.format, choose_device(o.device)));
  const std::vector<std::string_view> views = views_of(texts);
  INGOT_CHECK(o.prompt.empty() || o.prompt_name.empty(),
              InvalidConfig("--prompt", "stands for --prompt-name; give one of them"));
  const std::string prompt = o.prompt.empty() ? embedder.config().prompt(o.prompt_name) : o.prompt;
  const std::vector<std::vector<std::int32_t>> ids = embedder.encode(views, prompt);
  Tensor vectors = embedder.embed_ids(ids, embedder.prompt_tokens(prompt));
  if (o.dimensions != 0) vectors = truncated(vectors, o.dimensions);
  if (!o.output.empty()) write_npy(o.output, vectors);
  if (is_standard_output(o.output)) return 0;
  if (o.json) {
    print_json(o, embedder, ids, vectors);
    return 0;
  }
  constexpr std::size_t kMatrix = 12;  // more columns do not fit a terminal
  if (texts.size() <= kMatrix) print_similarities(texts, vectors, is_normalized(o, embedder));
  if (!o.output.empty())
    fmt::print("{}: f32 {}, one row per text\n", printable(o.output), to_string(vectors.shape()));
  return 0;
}

}  // namespace

void add_embed(Command& root) {
  auto o = std::make_shared<EmbedOptions>();
  Command command = root.subcommand("embed", "Turn texts into vectors; show which are near in meaning");
  command
      .option(
          "model", o->model,
          "Directory of a sentence-transformers model, of an encoder or a decoder, or a decoder's GGUF file")
      .required();
  o->inputs.add_to(command);
  command.option("-o,--output", o->output, "NumPy file to write: f32 [texts, dimension]");
  add_load_format_option(command, o->format);
  command.option(
      "--prompt-name", o->prompt_name,
      "One of the model's prompts to put before each text, as \"query\"; default: the model's own");
  command.option("--prompt", o->prompt, "Text to put before each text");
  command.option("--dimensions", o->dimensions,
                 "Keep the first elements of each vector, for models trained so (Matryoshka)");
  add_device_option(command, o->device);
  command.flag("--json", o->json, "Print the vectors as JSON; with -o, only what they are");
  command.example("ingot embed all-MiniLM-L6-v2 -t 'A cat sleeps' -t 'The kitten naps' -t 'Stocks fell'",
                  "cosine similarities of every pair");
  command.example("ingot embed all-MiniLM-L6-v2 -f lines.txt --format q8_0 -o vectors.npy",
                  "the layers' matmuls in int8");
  command.example("ingot embed nomic-embed -f queries.txt --prompt-name query --dimensions 256 -o q.npy",
                  "the model's prompt before each line, the first 256 elements of each vector");
  command.example("ingot embed all-MiniLM-L6-v2 -f lines.txt -o vectors.npy",
                  "then numpy.load('vectors.npy')");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
