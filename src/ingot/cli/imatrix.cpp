#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/cli/calibrate.h"
#include "ingot/cli/commands.h"
#include "ingot/hub/resolve.h"

namespace ingot::cli {
namespace {

struct ImatrixFlags {
  std::string model, out = "imatrix.gguf";
  CalibrationFlags calibration;
  bool json = false;
};

int run(ImatrixFlags o) {
  o.model = hub::resolve_model(o.model);
  const ImportanceMatrix matrix = calibrate(o.model, o.calibration);
  write_importance_matrix(o.out, matrix);
  if (o.json)
    fmt::print("{}\n", printable_json(dump_json(nlohmann::ordered_json{{"path", o.out},
                                                                       {"tensors", matrix.entries.size()},
                                                                       {"windows", matrix.chunks},
                                                                       {"window", matrix.chunk_tokens}},
                                                2)));
  else
    fmt::print("{}: importance of the columns of {} tensors, over {} tokens of {}\n", printable(o.out),
               matrix.entries.size(), std::int64_t{matrix.chunks} * matrix.chunk_tokens,
               printable(o.calibration.text));
  return 0;
}

}  // namespace

void add_imatrix(Command& root) {
  auto o = std::make_shared<ImatrixFlags>();
  Command command = root.subcommand(
      "imatrix",
      "Measure over a text which columns of a model's matrices matter, for ingot quantize --imatrix");
  command.option("model", o->model, "A model directory, or a .gguf file").required();
  command
      .option("--text", o->calibration.text,
              "Text like what the model will see: a file of text, or of records with a member \"text\"")
      .required();
  command.option("-o,--out", o->out, "The file to write: GGUF, or NAME.dat for older llama.cpp");
  add_calibration_options(command, o->calibration);
  command.flag("--json", o->json, "Print JSON");
  command.example("ingot imatrix out/model --text book.txt -o imatrix.gguf",
                  "a file that llama-quantize reads, too");
  command.example("ingot quantize out/model model-iq4_xs.gguf --format iq4_xs --imatrix imatrix.gguf",
                  "spares the columns that matter");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
