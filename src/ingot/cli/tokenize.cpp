#include <charconv>
#include <iostream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/inference.h"
#include "ingot/hub/resolve.h"
#include "ingot/text/tokenizer.h"

namespace ingot::cli {
namespace {

struct TokenizeOptions {
  std::string model, text, ids;
  bool special = false, json = false;
};

int run(const TokenizeOptions& o) {
  const text::Tokenizer tokenizer = open_tokenizer(hub::resolve_model(o.model));
  if (!o.ids.empty()) {
    const std::vector<std::int32_t> ids = parse_ids(o.ids, "--ids");
    const std::string text = tokenizer.decode(ids, !o.special);
    print_piece(o.json ? printable_json(dump_json(nlohmann::json{{"text", text}})) : text);
    print_piece("\n");
    return 0;
  }
  std::string text = o.text;
  if (text.empty() || text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), {});
  const std::vector<std::int32_t> ids = tokenizer.encode(text, {.add_special_tokens = o.special});
  if (o.json) {
    nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
    for (const std::int32_t id : ids) tokens.push_back(std::string(tokenizer.id_to_token(id)));
    fmt::print("{}\n", printable_json(dump_json(
                           nlohmann::ordered_json{{"ids", ids}, {"tokens", tokens}, {"count", ids.size()}})));
    return 0;
  }
  fmt::print("{}\n", fmt::join(ids, ","));
  return 0;
}

}  // namespace

void add_tokenize(Command& root) {
  auto o = std::make_shared<TokenizeOptions>();
  Command command = root.subcommand("tokenize", "Turn text into token ids, or ids into text");
  command.option("model", o->model, "Model directory, or a tokenizer.json").required();
  command.option("-t,--text", o->text,
                 "Text to encode; without it and --ids, or as -, text is read from standard input");
  command.option("--ids", o->ids, "Ids to decode, as 1,2,3");
  command.flag("--special", o->special, "Add special tokens when encoding, show them when decoding");
  command.flag("--json", o->json, "Print JSON, with the tokens' texts");
  command.example("ingot tokenize out/model --text 'Hello world'", "15496,995 and the like");
  command.example("wc -c < book.txt; ingot tokenize out/model < book.txt | tr ',' '\\n' | wc -l",
                  "bytes, and tokens");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
