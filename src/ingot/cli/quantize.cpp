#include "ingot/export/quantize.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/units.h"
#include "ingot/cli/calibrate.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/text_table.h"
#include "ingot/cli/write_meter.h"
#include "ingot/data/documents.h"
#include "ingot/hub/resolve.h"
#include "ingot/infer/quality.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/quant/block_format.h"
#include "ingot/quant/packed_matrix.h"
#include "ingot/weights/open.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct QuantizeFlags {
  std::string source, destination, report, encoding, imatrix;
  CalibrationFlags calibration;
  std::string method = "gptq";
  std::vector<std::string> formats, copies;
  infer::PerplexityOptions window{.window = 256, .stride = 128};
  std::int64_t limit = 8192;
  std::string shard_size = "5GB";
  bool json = false;
};

// Null where neither a matrix nor a text to measure one is given.
std::shared_ptr<const ImportanceMatrix> importance_of(const QuantizeFlags& o) {
  if (!o.imatrix.empty()) return std::make_shared<const ImportanceMatrix>(read_importance_matrix(o.imatrix));
  if (o.calibration.text.empty() || !o.destination.ends_with(".gguf")) return nullptr;
  return std::make_shared<const ImportanceMatrix>(calibrate(o.source, o.calibration));
}

// For GPTQ; empty where there is no text to calibrate with, or the file is one of GGUF's.
InputProducts products_of(const QuantizeFlags& o) {
  if (o.calibration.text.empty() || o.destination.ends_with(".gguf")) return {};
  return input_products(o.source, o.calibration);
}

CalibratedRounding rounding_of(const QuantizeFlags& o) {
  if (o.method == "gptq") return CalibratedRounding::gptq;
  return o.method == "awq" ? CalibratedRounding::awq : CalibratedRounding::awq_gptq;
}

Json as_json(const infer::Divergence& d) {
  return {{"perplexity", d.text.perplexity()}, {"kl", d.kl}, {"same_top", d.same_top}};
}

Json as_json(const quant::StandIns& stand_ins) {
  Json rows = Json::array();
  for (const quant::StandIns::Row& row : stand_ins.rows())
    rows.push_back({{"format", row.used.empty() ? "as stored" : row.used},
                    {"in_place_of", row.wanted},
                    {"columns", row.columns},
                    {"matrices", row.names}});
  return rows;
}

Json as_json(const infer::FormatQuality& q) {
  if (!q.refusal.empty()) return {{"format", q.format}, {"refusal", q.refusal}};
  return {{"format", q.format},
          {"bits_per_weight", q.bits_per_weight},
          {"weight_error", q.weight_error},
          {"weights_only", as_json(q.weights)},
          {"as_run", as_json(q.as_run)},
          {"stand_ins", as_json(q.stand_ins)}};
}

// A terminal that is too narrow for all columns has those of the model as it runs.
bool shows_rounded_weights() { return !is_terminal(STDOUT_FILENO) || terminal_columns(STDOUT_FILENO) >= 108; }

void print_header() {
  const bool all = shows_rounded_weights();
  std::string lines = fmt::format("{:<15} {:>5} {:>9} |", "", "", "weight");
  if (all) lines += fmt::format(" {:^31} |", "rounded weights");
  lines += fmt::format(" {:^39}\n{:<15} {:>5} {:>9} |", "as it runs", "format", "bits", "error");
  if (all) lines += fmt::format(" {:>9} {:>10} {:>10} |", "perplex.", "", "KL");
  lines += fmt::format(" {:>9} {:>10} {:>9} {:>8}\n", "perplex.", "", "KL", "same top");
  fmt::print("{}", cut_on_terminal(lines));
}

void print_row(const infer::FormatQuality& q, double reference) {
  if (!q.refusal.empty()) {
    fmt::print("{:<15} {}\n", printable(q.format), printable(q.refusal));
    return;
  }
  const auto change = [reference](const infer::Divergence& d) {
    return 100 * (d.text.perplexity() / reference - 1);
  };
  std::string row = fmt::format("{:<15} {:>5.2f} {:>7.3f} % |", printable(q.format), q.bits_per_weight,
                                100 * q.weight_error);
  if (shows_rounded_weights())
    row += fmt::format(" {:>9.4f} {:>+8.3f} % {:>9.6f} |", q.weights.text.perplexity(), change(q.weights),
                       q.weights.kl);
  row += fmt::format(" {:>9.4f} {:>+8.3f} % {:>9.6f} {:>6.2f} %", q.as_run.text.perplexity(),
                     change(q.as_run), q.as_run.kl, 100 * q.as_run.same_top);
  fmt::print("{}\n", cut_on_terminal(row));
}

// What was written, where something was; else the source rounded in memory.
infer::FormatQuality measure(const infer::QualityReport& quality, const std::string& format,
                             const QuantizeFlags& o, const WrittenModel& written) {
  if (written.path.empty()) return quality.measure(format);
  infer::FormatQuality row = quality.measure_written(o.destination, format);
  row.stand_ins = written.stand_ins;
  return row;
}

// Below the table: which formats are not what their name says in every matrix.
void print_stand_ins(const std::vector<infer::FormatQuality>& rows) {
  for (const infer::FormatQuality& row : rows)
    if (!row.stand_ins.empty())
      fmt::print("\n{}: {}", printable(row.format), printable(row.stand_ins.summary()));
  fmt::print("\n");
}

// The rows of a report: formats, then copies that were made elsewhere.
std::vector<std::string> report_rows(const QuantizeFlags& o) {
  std::vector<std::string> rows = o.formats;
  if (rows.empty() && o.copies.empty()) rows = quant::quantized_formats();
  rows.insert(rows.end(), o.copies.begin(), o.copies.end());
  return rows;
}

Json report(const QuantizeFlags& o, const WrittenModel& written) {
  const std::vector<std::string> names = report_rows(o);
  const std::size_t formats = names.size() - o.copies.size();
  std::vector<std::int32_t> ids = open_tokenizer(o.source).encode(data::read_documents(o.report, o.encoding));
  if (o.limit > 0 && o.limit < static_cast<std::int64_t>(ids.size()))
    ids.resize(static_cast<std::size_t>(o.limit));
  ProgressBar bar({.label = "measuring", .total = std::ssize(names) + 1});
  const infer::QualityReport quality(o.source, ids, o.window);
  bar.update(1, "as stored");
  const double reference = quality.reference().perplexity();
  if (!o.json) {
    const ProgressPause pause;
    fmt::print("{} tokens of {}; perplexity {:.4f} with the weights as stored\n\n", ids.size(),
               printable(o.report), reference);
    print_header();
  }
  Json json = Json::array();
  std::vector<infer::FormatQuality> rows;
  rows.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const infer::FormatQuality& row =
        rows.emplace_back(i < formats ? measure(quality, names[i], o, written)
                                      : quality.measure_written(hub::resolve_model(names[i]), names[i]));
    if (!o.json) {
      const ProgressPause pause;
      print_row(row, reference);
    }
    json.push_back(as_json(row));
    bar.update(static_cast<std::int64_t>(i) + 2, names[i]);
  }
  bar.finish();
  if (!o.json) print_stand_ins(rows);
  return {{"tokens", ids.size()}, {"perplexity", reference}, {"formats", json}};
}

void check(const QuantizeFlags& o) {
  INGOT_CHECK(!o.destination.empty() || !o.report.empty(),
              InvalidConfig("destination", "give a file or directory to write, --report TEXT, or both"));
  INGOT_CHECK(o.destination.empty() || !o.formats.empty(),
              InvalidConfig("--format", "name the format to write, such as q4_k"));
  INGOT_CHECK(
      o.destination.empty() || o.formats.size() == 1,
      InvalidConfig("--format", fmt::format("one format goes into a file; {} are named", o.formats.size())));
  for (const std::string& format : o.formats) check_quantized_format(format);
  INGOT_CHECK(o.copies.empty() || !o.report.empty(),
              InvalidConfig("--compare", "sets files beside each other on a text: give --report TEXT"));
  INGOT_CHECK(o.imatrix.empty() || o.calibration.text.empty(),
              InvalidConfig("--calibrate", "--imatrix has what it would measure; give one of them"));
  INGOT_CHECK(o.imatrix.empty() || o.destination.ends_with(".gguf"),
              InvalidConfig("--imatrix", "is for GGUF's formats: give a destination NAME.gguf"));
  INGOT_CHECK(o.method == "gptq" || (!o.calibration.text.empty() && !o.destination.ends_with(".gguf")),
              InvalidConfig("--method",
                            "is how int4 and int8 directories are rounded for a text: give "
                            "--calibrate TEXT and a directory"));
  INGOT_CHECK(o.calibration.text.empty() || !o.destination.empty(),
              InvalidConfig("--calibrate", "is for what is written: give a destination"));
}

// The format that most of a file's bytes are rounded to already; empty where its weights are floats.
std::string rounded_before(const std::string& source) {
  if (!source.ends_with(".gguf")) return "";
  std::map<std::string, std::uint64_t> bytes;
  const auto weights = open_weights(source);
  for (const TensorInfo& tensor : weights->tensors()) bytes[tensor.stored_as] += tensor.bytes;
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return most != bytes.end() && quant::find_block_format(most->first) != nullptr ? most->first : "";
}

void warn_of_second_rounding(const QuantizeFlags& o) {
  const std::string before = rounded_before(o.source);
  if (before.empty()) return;
  log(LogLevel::warn, "ingot::quantize",
      fmt::format(
          "{} holds {} already: rounding it once more costs more than rounding the original model would",
          o.source, before));
}

int run(QuantizeFlags o) {
  o.source = hub::resolve_model(o.source);
  for (std::string& format : o.formats)  // Q8_0 is q8_0
    std::ranges::transform(format, format.begin(), [](unsigned char c) { return std::tolower(c); });
  check(o);
  Json result;
  WrittenModel written;
  if (!o.destination.empty()) {
    warn_of_second_rounding(o);
    const auto importance = importance_of(o);
    const InputProducts products = products_of(o);
    WriteMeter meter("quantizing");
    written = quantize_model({.source = o.source,
                              .destination = o.destination,
                              .format = o.formats.front(),
                              .max_shard_bytes = parse_bytes(o.shard_size, "--shard-size"),
                              .importance = importance,
                              .products = products,
                              .rounding = rounding_of(o)},
                             meter.progress());
    meter.finish();
    result = {{"path", written.path},
              {"format", o.formats.front()},
              {"bytes", written.bytes},
              {"stand_ins", as_json(written.stand_ins)}};
    if (!o.json)
      fmt::print("{}: {}, {} of tensors\n", printable(written.path), o.formats.front(),
                 human_bytes(written.bytes));
    if (!o.json && !written.stand_ins.empty()) fmt::print("{}\n", printable(written.stand_ins.summary()));
  }
  if (!o.report.empty()) {
    if (!o.destination.empty() && !o.json) fmt::print("\n");
    result["report"] = report(o, written);
  }
  if (o.json) fmt::print("{}\n", printable_json(dump_json(result, 2)));
  return 0;
}

}  // namespace

void add_quantize(Command& root) {
  auto o = std::make_shared<QuantizeFlags>();
  Command command = root.subcommand(
      "quantize", "Quantize a model: round its weights to fewer bits, and measure what that costs");
  command.option("source", o->source, "A model directory, or a .gguf file").required();
  command.option("destination", o->destination,
                 "NAME.gguf for llama.cpp's formats; a directory for int4, int8, fp8, nvfp4 "
                 "(compressed-tensors) and nf4 "
                 "(bitsandbytes)");
  command
      .option("--format", o->formats,
              "q4_k, q8_0, int4-g128, nf4, nvfp4, ...; several, or none for all, to report")
      .suggests(quant::quantized_formats());
  command.option("--report", o->report,
                 "Compare predictions of this text before and after: a file of text, or of records with a "
                 "member \"text\"");
  command
      .option("--compare", o->copies,
              "A quantized copy of SOURCE made elsewhere, as a further row of the report (may be repeated)")
      .placeholder("MODEL");
  command.option("--encoding", o->encoding,
                 "What the text of --report is encoded in, if not UTF-8: latin1, cp1252 ...");
  command.option("--window", o->window.window, "Tokens that the model sees at once");
  command.option("--stride", o->window.stride, "Tokens by which the window moves on");
  command.option("--limit", o->limit, "Tokens of the text to use; 0: all");
  command.option("--imatrix", o->imatrix,
                 "Round so that the columns that matter keep more: a file of ingot imatrix or llama-imatrix");
  command.option(
      "--calibrate", o->calibration.text,
      "Round for texts like this one: GGUF's formats with an importance matrix, int4 and int8 by --method");
  command
      .option(
          "--method", o->method,
          "How int4 and int8 are rounded for it: gptq moves errors to other columns, awq scales columns by "
          "their inputs")
      .one_of({"gptq", "awq", "awq+gptq"});
  command.option("--calibration-window", o->calibration.options.window,
                 "Tokens that the model sees at once there");
  command.option("--calibration-tokens", o->calibration.limit, "Tokens of --calibrate to use; 0: all");
  command.option("--device", o->calibration.device,
                 "Where the text of --calibrate runs: auto, cpu, cuda, cuda:N");
  command.option("--shard-size", o->shard_size, "A directory gets several files above this size");
  command.flag("--json", o->json, "Print JSON");
  command.example("ingot quantize out/model model-q4_k.gguf --format q4_k --report book.txt",
                  "a file that llama.cpp opens, and what it costs on a text");
  command.example("ingot quantize out/model model-q3_k.gguf --format q3_k --calibrate book.txt",
                  "rounded so that the columns that matter for such texts keep more");
  command.example("ingot quantize out/model model-fp8 --format fp8",
                  "a directory that transformers opens, with compressed-tensors");
  command.example("ingot quantize out/model --report book.txt --format q4_k --compare theirs-Q4_K.gguf",
                  "our rounding beside that of another program");
  command.example("ingot quantize out/model --report book.txt", "every format, nothing written");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
