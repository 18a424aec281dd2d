#include "ingot/text/unigram.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/text/json_write.h"

namespace ingot::text {

namespace {

/// How much worse than the worst token an unknown character is (google/sentencepiece, unigram_model.cc).
constexpr double kUnkPenalty = 10.0;

}  // namespace

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores,
                           std::optional<std::int32_t> unk_id, bool byte_fallback)
    : Model(std::move(vocabulary)),
      scores_(std::move(scores)),
      unk_id_(unk_id),
      byte_fallback_(byte_fallback) {
  INGOT_CHECK(!unk_id_ || vocabulary_.contains(*unk_id_),
              InvalidConfig("model.unk_id", fmt::format("{} is not an id of a vocabulary of {}", *unk_id_,
                                                        vocabulary_.size())));
  std::vector<std::pair<std::string_view, std::int32_t>> keys;
  keys.reserve(scores_.size());
  double worst = scores_.empty() ? 0 : scores_[0];
  for (std::int32_t id = 0; id < vocabulary_.id_limit(); ++id) {
    if (const std::string_view token = vocabulary_.token(id); !token.empty()) keys.emplace_back(token, id);
    worst = std::min(worst, scores_[static_cast<std::size_t>(id)]);
  }
  trie_.build(std::move(keys));
  unk_score_ = worst - kUnkPenalty;
  for (std::size_t b = 0; b < 256; ++b) fallback_ids_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
}

void UnigramModel::best_path(std::string_view piece, Workspace& work) const {
  auto& nodes = work.path;
  nodes.assign(piece.size() + 1, {0, 0, -1});
  for (std::size_t start = 0; start < piece.size();) {
    const std::size_t character = utf8_length(piece[start]);
    const double here = nodes[start].score;
    bool covered = false;
    const auto offer = [&](std::size_t length, double score, std::int32_t id) {
      auto& node = nodes[start + length];
      if (node.start < 0 || score > node.score) node = {score, id, static_cast<std::int32_t>(start)};
    };
    const std::size_t looked_at =
        trie_.prefixes(piece.substr(start), [&](std::size_t length, std::int32_t id) {
          offer(length, here + scores_[static_cast<std::size_t>(id)], id);
          covered = covered || length == character;
        });
    work.spend(looked_at);
    if (!covered) {
      INGOT_CHECK(unk_id_,
                  InvalidConfig("model.unk_id", fmt::format("is not set, and the text needs it for \"{}\"",
                                                            piece.substr(start, character))));
      offer(character, here + unk_score_, *unk_id_);
    }
    start += character;
  }
}

/// Appends what stands for a stretch of text that the path left in one part.
void UnigramModel::emit(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (const std::int32_t id = vocabulary_.find(text); id >= 0) {
    ids.push_back(id);
    return;
  }
  const auto fallback = [&](char b) { return fallback_ids_[static_cast<unsigned char>(b)]; };
  if (byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char b) { return fallback(b) >= 0; })) {
    for (const char b : text) ids.push_back(fallback(b));
    return;
  }
  ids.push_back(*unk_id_);
}

void UnigramModel::encode(std::string_view piece, std::vector<std::int32_t>& ids, Workspace& work) const {
  if (piece.empty()) return;
  std::size_t slot = 0;
  if (const auto known = work.cache.get(piece, slot); !known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  INGOT_CHECK(piece.size() < INT32_MAX, Error("a piece of text of 2 GB is too long for a unigram tokenizer"));
  best_path(piece, work);
  // Follow the path back; unknown characters in a row are one unknown token.
  auto& parts = work.spans;
  parts.clear();
  bool after_unknown = false;
  for (std::size_t end = piece.size(); end > 0;) {
    const auto& node = work.path[end];
    const auto start = static_cast<std::size_t>(node.start);
    const bool unknown = unk_id_ && node.id == *unk_id_;
    if (unknown && after_unknown)
      parts.back().begin = start;
    else
      parts.push_back({start, end});
    after_unknown = unknown;
    end = start;
  }
  work.symbols.clear();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    emit(piece.substr(part->begin, part->end - part->begin), work.symbols);
  work.cache.put(piece, slot, work.symbols);
  ids.insert(ids.end(), work.symbols.begin(), work.symbols.end());
}

void UnigramModel::write_json(const std::function<void(std::string_view)>& write) const {
  write(fmt::format("{{\n    \"type\": \"Unigram\",\n    \"unk_id\": {},\n    \"vocab\": [",
                    unk_id_ ? std::to_string(*unk_id_) : "null"));
  for (std::int32_t id = 0; id < vocabulary_.id_limit(); ++id) {
    // The shortest digits that read back as the same number, with a point as a sign of its type.
    std::string score = fmt::format("{}", scores_[static_cast<std::size_t>(id)]);
    if (score.find_first_of(".en") == std::string::npos) score += ".0";
    write(fmt::format("{}\n      [\n        {},\n        {}\n      ]", id == 0 ? "" : ",",
                      json_string(vocabulary_.token(id)), score));
  }
  write(fmt::format("\n    ],\n    \"byte_fallback\": {}\n  }}", byte_fallback_));
}

}  // namespace ingot::text
