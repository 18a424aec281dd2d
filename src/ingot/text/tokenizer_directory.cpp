#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/text/bpe.h"
#include "ingot/text/files.h"
#include "ingot/text/tokenizer_spec.h"

namespace ingot::text {

namespace {

namespace fs = std::filesystem;

/// Tokens that tokenizer_config.json names are special even where only older files list the vocabulary.
void mark_special(TokenizerSpec& spec, const std::string& token) {
  const auto same = [&](const AddedToken& t) { return t.content == token; };
  const std::int32_t id = spec.model->vocabulary().find(token);
  if (token.empty() || id < 0 || std::any_of(spec.added_tokens.begin(), spec.added_tokens.end(), same))
    return;
  AddedToken added;
  added.id = id;
  added.content = token;
  added.special = true;
  spec.added_tokens.push_back(std::move(added));
}

}  // namespace

TokenizerSpec read_gpt2_files(const fs::path& vocab, const fs::path& merges) {
  TokenizerSpec spec;
  spec.source = vocab.string();
  Vocabulary vocabulary = parse_vocab_json(read_file(vocab), vocab.string());
  const BpeOptions options;
  const std::string content = read_file(merges);
  MergeBuilder table(vocabulary, options,
                     static_cast<std::size_t>(std::count(content.begin(), content.end(), '\n')));
  std::int64_t line_number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    std::string_view line = std::string_view(content).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto offset = static_cast<std::int64_t>(begin);
    begin = end + 1;
    ++line_number;
    if (line.starts_with("#version") || line.empty()) continue;
    const std::string problem = table.add_line(line);
    INGOT_CHECK(problem.empty(),
                FormatError(merges.string(), offset, fmt::format("line {}", line_number), problem));
  }
  spec.pre_tokenizer =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  spec.post_processor = spec.pre_tokenizer;
  spec.decoder = spec.pre_tokenizer;
  if (const std::string_view token = "<|endoftext|>"; vocabulary.find(token) >= 0)
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = token;
  spec.model = std::make_shared<BpeModel>(std::move(vocabulary), table.take(), options);
  return spec;
}

TokenizerSpec read_tokenizer_directory(const fs::path& directory) {
  const auto path = [&](const char* name) { return directory / name; };
  const auto have = [&](const char* name) { return fs::exists(path(name)); };
  TokenizerSpec spec;
  if (have("tokenizer.json"))
    spec = parse_tokenizer_json(read_file(path("tokenizer.json")), path("tokenizer.json").string());
  else if (have("vocab.json") && have("merges.txt"))
    spec = read_gpt2_files(path("vocab.json"), path("merges.txt"));
  else
    throw IoError(directory.string(),
                  "holds no tokenizer: expected tokenizer.json, or vocab.json with merges.txt");
  if (have("tokenizer_config.json"))
    spec.config = parse_tokenizer_config(read_file(path("tokenizer_config.json")),
                                         path("tokenizer_config.json").string());
  for (const std::string* token :
       {&spec.config.bos_token, &spec.config.eos_token, &spec.config.unk_token, &spec.config.pad_token})
    mark_special(spec, *token);
  return spec;
}

}  // namespace ingot::text
