#include "ingot/export/merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/write_meter.h"
#include "ingot/hub/resolve.h"

namespace ingot::cli {
namespace {

struct MergeFlags {
  MergeOptions merge;
  std::vector<std::string> adapters;
  bool json = false;
};

int run(MergeFlags o) {
  o.merge.model = hub::resolve_model(o.merge.model);
  o.merge.adapters.reserve(o.adapters.size());
  for (const std::string& text : o.adapters) {
    AdapterChoice choice = AdapterChoice::parse(text);
    choice.path = hub::resolve_model(choice.path);
    o.merge.adapters.push_back(std::move(choice));
  }
  WriteMeter meter("merging");
  const WrittenModel written = merge_model(o.merge, meter.progress());
  meter.finish();
  if (o.json) {
    fmt::print("{}\n",
               printable_json(dump_json(nlohmann::ordered_json{
                   {"path", written.path}, {"adapters", o.adapters.size()}, {"bytes", written.bytes}})));
  } else {
    fmt::print("{}: {} with {} merged, {}\n", printable(written.path), printable(o.merge.model),
               printable(fmt::format("{}", fmt::join(o.adapters, ", "))), human_bytes(written.bytes));
  }
  return 0;
}

}  // namespace

void add_merge(Command& root) {
  auto o = std::make_shared<MergeFlags>();
  Command command = root.subcommand("merge", "Add LoRA adapters to the weights of their base model");
  command.option("model", o->merge.model, "The base model: a directory, a GGUF file, or a Hub name")
      .required();
  command.option("destination", o->merge.destination, "The directory to write").required();
  command
      .option("--adapter", o->adapters,
              "A PEFT directory or a GGUF file, or PATH=WEIGHT; may be repeated, updates add up")
      .required();
  command
      .option("--dtype", o->merge.dtype,
              "Element type of the merged weights: f32, bf16, f16 (default: as stored)")
      .suggests(load_formats());
  command.flag("--json", o->json, "Print path, adapters and bytes as JSON");
  command.example("ingot merge base merged --adapter out/adapter", "a model that needs no adapter");
  command.example("ingot merge base mixed --adapter style=0.7 --adapter facts=0.3", "two adapters, weighted");
  command.example("ingot merge base.gguf merged --adapter out/adapter --dtype bf16",
                  "of a quantized GGUF: its values, then the update");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
