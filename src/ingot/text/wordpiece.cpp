#include "ingot/text/wordpiece.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/text/json_write.h"

namespace ingot::text {

namespace {

std::int32_t require_unk(std::int32_t id, const std::string& token, std::string_view word) {
  INGOT_CHECK(id >= 0,
              InvalidConfig("model.unk_token",
                            fmt::format("\"{}\" is not in the vocabulary, and the text needs it for \"{}\"",
                                        token, word)));
  return id;
}

}  // namespace

WordPieceModel::WordPieceModel(Vocabulary vocabulary, WordPieceOptions options)
    : Model(std::move(vocabulary)),
      options_(std::move(options)),
      unk_id_(vocabulary_.find(options_.unk_token)) {
  for (std::int32_t id = 0; id < vocabulary_.id_limit(); ++id)
    longest_ = std::max(longest_, vocabulary_.token(id).size());
}

bool WordPieceModel::cover(std::string_view piece, Workspace& work) const {
  const std::string& prefix = options_.continuing_subword_prefix;
  for (std::size_t start = 0; start < piece.size();) {
    work.text.assign(start > 0 ? std::string_view(prefix) : std::string_view());
    const std::size_t ahead = work.text.size();
    // No token is longer than longest_; cut there, at a character.
    std::size_t end = piece.size();
    if (longest_ > ahead && end - start > longest_ - ahead) end = start + longest_ - ahead;
    while (end < piece.size() && end > start && (static_cast<unsigned char>(piece[end]) & 0xC0) == 0x80)
      --end;
    work.text.append(piece.substr(start, end - start));
    std::int32_t id = -1;
    while (end > start) {
      work.spend(work.text.size());
      id = vocabulary_.find(work.text);
      if (id >= 0) break;
      do {
        --end;
      } while (end > start && (static_cast<unsigned char>(piece[end]) & 0xC0) == 0x80);
      work.text.resize(ahead + end - start);
    }
    if (id < 0) return false;
    work.symbols.push_back(id);
    start = end;
  }
  return true;
}

void WordPieceModel::encode(std::string_view piece, std::vector<std::int32_t>& ids, Workspace& work) const {
  if (piece.empty()) return;
  std::size_t slot = 0;
  if (const auto known = work.cache.get(piece, slot); !known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  const auto characters = std::count_if(
      piece.begin(), piece.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  work.symbols.clear();
  if (characters > options_.max_input_chars_per_word || !cover(piece, work))
    work.symbols.assign(1, require_unk(unk_id_, options_.unk_token, piece));
  work.cache.put(piece, slot, work.symbols);
  ids.insert(ids.end(), work.symbols.begin(), work.symbols.end());
}

void WordPieceModel::write_json(const std::function<void(std::string_view)>& write) const {
  write(fmt::format(
      "{{\n    \"type\": \"WordPiece\",\n    \"unk_token\": {},\n    \"continuing_subword_prefix\": {},\n"
      "    \"max_input_chars_per_word\": {},\n",
      json_string(options_.unk_token), json_string(options_.continuing_subword_prefix),
      options_.max_input_chars_per_word));
  write_json_vocabulary(vocabulary_, write);
  write("\n  }");
}

WordLevelModel::WordLevelModel(Vocabulary vocabulary, std::string unk_token)
    : Model(std::move(vocabulary)), unk_token_(std::move(unk_token)), unk_id_(vocabulary_.find(unk_token_)) {}

void WordLevelModel::encode(std::string_view piece, std::vector<std::int32_t>& ids, Workspace&) const {
  if (piece.empty()) return;
  const std::int32_t id = vocabulary_.find(piece);
  ids.push_back(id >= 0 ? id : require_unk(unk_id_, unk_token_, piece));
}

void WordLevelModel::write_json(const std::function<void(std::string_view)>& write) const {
  write("{\n    \"type\": \"WordLevel\",\n");
  write_json_vocabulary(vocabulary_, write);
  write(fmt::format(",\n    \"unk_token\": {}\n  }}", json_string(unk_token_)));
}

}  // namespace ingot::text
