#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/core/device_config.h"
#include "ingot/hub/resolve.h"
#include "ingot/infer/load.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/weights/npy.h"

namespace ingot::cli {
namespace {

struct LogitsOptions {
  std::string model, device = "auto", tokens, text, output;
  bool json = false;
};

int run(LogitsOptions o) {
  INGOT_CHECK(o.tokens.empty() != o.text.empty(),
              InvalidConfig("--tokens", "give either --tokens or --text"));
  o.model = hub::resolve_model(o.model);
  const auto model = load_language_model(
      o.model, {.dtype = DType::f32, .device = choose_device(o.device), .copy = false, .trainable = false});
  const std::vector<std::int32_t> ids =
      o.tokens.empty() ? open_tokenizer(o.model).encode(o.text) : parse_ids(o.tokens, "--tokens");
  const Tensor logits = infer::token_logits(*model, ids);
  write_npy(o.output, logits);
  if (is_standard_output(o.output)) return 0;
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(nlohmann::ordered_json{
                           {"path", o.output}, {"shape", logits.shape().to_vector()}})));
  } else {
    fmt::print("{}: f32 {}, one row per token\n", printable(o.output), to_string(logits.shape()));
  }
  return 0;
}

}  // namespace

void add_logits(Command& root) {
  auto o = std::make_shared<LogitsOptions>();
  o->output = "logits.npy";
  Command command =
      root.subcommand("logits", "Write a model's logits for given tokens, to compare with another program");
  command.option("model", o->model, "Model directory, or a .gguf file").required();
  add_device_option(command, o->device);
  command.option("--tokens", o->tokens, "Token ids, as 1,2,3");
  command.option("-t,--text", o->text, "Text instead of ids");
  command.option("-o,--output", o->output, "NumPy file to write: f32 [tokens, vocabulary]");
  command.flag("--json", o->json, "Print path and shape as JSON");
  command.example("ingot logits out/model --tokens 1,2,3 -o logits.npy", "then numpy.load('logits.npy')");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
