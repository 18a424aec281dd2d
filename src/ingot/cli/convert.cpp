#include "ingot/export/convert.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/write_meter.h"
#include "ingot/export/convert_adapter.h"
#include "ingot/hub/resolve.h"

namespace ingot::cli {
namespace {

struct ConvertFlags {
  ConvertOptions convert;
  std::string shard_size;
  bool json = false;
};

int run(ConvertFlags o) {
  o.convert.source = hub::resolve_model(o.convert.source);
  if (o.convert.base.empty() && is_adapter(o.convert.source))
    o.convert.base = base_of_adapter(o.convert.source);
  if (!o.convert.base.empty()) o.convert.base = hub::resolve_model(o.convert.base);
  if (!o.shard_size.empty()) o.convert.max_shard_bytes = parse_bytes(o.shard_size, "--shard-size");
  WriteMeter meter("converting");
  const ConvertedModel written = convert_model(o.convert, meter.progress());
  meter.finish();
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(nlohmann::ordered_json{
                           {"path", written.path}, {"format", written.format}, {"bytes", written.bytes}})));
  } else {
    fmt::print("{}: {}, {} of tensors\n", printable(written.path), written.format,
               human_bytes(written.bytes));
    if (!written.stand_ins.empty()) fmt::print("{}\n", printable(written.stand_ins.summary()));
  }
  return 0;
}

}  // namespace

void add_convert(Command& root) {
  auto o = std::make_shared<ConvertFlags>();
  Command command =
      root.subcommand("convert", "Write weights, or a whole model, in another format or element type");
  command
      .option("source", o->convert.source,
              "A model directory, a LoRA adapter, or a file: safetensors, GGUF, PyTorch, NumPy, Keras, "
              "TensorFlow")
      .required();
  command
      .option("destination", o->convert.destination,
              "What to write: NAME.gguf, NAME.npz, NAME.safetensors, NAME.pt, NAME.onnx, or a directory")
      .required();
  command.option("--to", o->convert.to, "The format, where the name does not tell")
      .one_of({"safetensors", "gguf", "npz", "pt", "onnx"});
  command
      .option("--dtype", o->convert.dtype,
              "Element type of the weights: f32, bf16, f16, or a block format (q8_0, q4_k, ...)")
      .suggests(load_formats());
  command.option("--shard-size", o->shard_size,
                 "Above this size several files are written (a directory: 5GB; GGUF: one file)");
  command.option("--base", o->convert.base,
                 "Of an adapter: its base model (default: the one that adapter_config.json names)");
  command.option("--raw", o->convert.raw,
                 "What a file without a header holds, as NAME=f32[2,3]@OFFSET (may be repeated)");
  command.flag("--json", o->json, "Print path, format and bytes as JSON");
  command.example("ingot convert out/model model.gguf --dtype q8_0", "a file that llama.cpp opens");
  command.example("ingot convert model.gguf model", "back to a Hugging Face directory, tokenizer included");
  command.example("ingot convert out/model model.gguf --shard-size 2GB",
                  "model-00001-of-00004.gguf and so on");
  command.example("ingot convert out/adapter adapter.gguf --base out/model",
                  "a LoRA adapter that llama.cpp opens, and back to a PEFT directory alike");
  command.example("ingot convert values.bin values.npz --raw 'f32[-1,768]'",
                  "rows of a file without a header");
  command.example("ingot convert bc/model player.onnx", "a mahjong network, for ONNX Runtime and others");
  command.example("ingot convert pytorch_model.bin model.safetensors --dtype bf16", "one file of tensors");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
