#include "ingot/text/bpe.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/text/byte_level.h"
#include "ingot/text/json_write.h"

namespace ingot::text {

namespace {

constexpr std::int32_t kNoMerge = INT32_MAX;
/// Up to here a scan for the lowest rank beats a heap.
constexpr std::size_t kFewSymbols = 96;

/// Lowest rank on top, leftmost on ties.
bool later(const Workspace::HeapEntry& a, const Workspace::HeapEntry& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

MergeBuilder::MergeBuilder(const Vocabulary& vocabulary, const BpeOptions& options, std::size_t expected)
    : vocabulary_(vocabulary),
      prefix_(options.continuing_subword_prefix ? options.continuing_subword_prefix->size() : 0) {
  table_.reserve(expected);
}

std::string MergeBuilder::add(std::string_view left, std::string_view right) {
  const auto unknown = [](std::string_view token) {
    return fmt::format("\"{}\" is not in the vocabulary", token);
  };
  const Pair pair{vocabulary_.find(left), vocabulary_.find(right)};
  if (pair.left < 0) return unknown(left);
  if (pair.right < 0) return unknown(right);
  if (right.size() < prefix_)
    return fmt::format("\"{}\" is shorter than the continuing_subword_prefix", right);
  last_ = joined(left, right.substr(prefix_));
  if (last_ < 0) return unknown(joined_);
  table_.find_or_insert(pair, {}) = {rank_++, last_};
  return {};
}

// Nearly every file lists merges in the order of the tokens that they make: looking at the last one and the
// next spares a look-up, of which there would be 280k in Llama 3's.
std::int32_t MergeBuilder::joined(std::string_view left, std::string_view right) {
  const auto is = [&](std::int32_t id) {
    const std::string_view token = vocabulary_.token(id);
    return !token.empty() && token.size() == left.size() + right.size() && token.starts_with(left) &&
           token.ends_with(right);
  };
  if (is(last_)) return last_;
  if (is(last_ + 1)) return last_ + 1;
  joined_.assign(left).append(right);
  return vocabulary_.find(joined_);
}

std::string MergeBuilder::add_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    return fmt::format("expected two tokens with one space between them, found \"{}\"", line);
  return add(line.substr(0, space), line.substr(space + 1));
}

BpeModel::BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : Model(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  if (options_.unk_token) unk_id_ = vocabulary_.find(*options_.unk_token);
  accepts_bytes_ = !options_.continuing_subword_prefix && !options_.end_of_word_suffix;
  for (std::size_t b = 0; b < 256; ++b) {
    std::string character;
    append_utf8(character, byte_to_char(static_cast<unsigned char>(b)));
    byte_level_ids_[b] = vocabulary_.find(character);
    fallback_ids_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
    accepts_bytes_ = accepts_bytes_ && byte_level_ids_[b] >= 0;
  }
}

void BpeModel::encode(std::string_view piece, std::vector<std::int32_t>& ids, Workspace& work) const {
  if (piece.empty()) return;
  std::size_t slot = 0;
  if (const auto known = work.cache.get(piece, slot); !known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  work.symbols.clear();
  const std::int32_t whole = options_.ignore_merges ? vocabulary_.find(piece) : -1;
  if (whole >= 0) {
    work.symbols.push_back(whole);
  } else {
    start_symbols(piece, work);
    merge(work);
  }
  work.cache.put(piece, slot, work.symbols);
  ids.insert(ids.end(), work.symbols.begin(), work.symbols.end());
}

void BpeModel::encode_bytes(std::string_view bytes, std::vector<std::int32_t>& ids, Workspace& work) const {
  if (bytes.empty()) return;
  std::size_t slot = 0;
  if (const auto known = work.cache.get(bytes, slot); !known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  work.symbols.clear();
  std::int32_t whole = -1;
  if (options_.ignore_merges) {
    work.text.clear();
    append_byte_level(work.text, bytes);
    whole = vocabulary_.find(work.text);
  }
  if (whole >= 0) {
    work.symbols.push_back(whole);
  } else {
    for (const char b : bytes) work.symbols.push_back(byte_level_ids_[static_cast<unsigned char>(b)]);
    merge(work);
  }
  work.cache.put(bytes, slot, work.symbols);
  ids.insert(ids.end(), work.symbols.begin(), work.symbols.end());
}

void BpeModel::start_symbols(std::string_view piece, Workspace& work) const {
  bool pending_unk = false;
  const auto flush_unk = [&] {
    if (pending_unk) work.symbols.push_back(unk_id_);
    pending_unk = false;
  };
  for (std::size_t i = 0; i < piece.size();) {
    const std::size_t length = utf8_length(piece[i]);
    std::string_view character = piece.substr(i, length);
    const bool first = i == 0, last = i + length >= piece.size();
    i += length;
    if ((!first && options_.continuing_subword_prefix) || (last && options_.end_of_word_suffix)) {
      work.text.clear();
      if (!first && options_.continuing_subword_prefix) work.text += *options_.continuing_subword_prefix;
      work.text += character;
      if (last && options_.end_of_word_suffix) work.text += *options_.end_of_word_suffix;
      character = work.text;
    }
    if (const std::int32_t id = vocabulary_.find(character); id >= 0) {
      flush_unk();
      work.symbols.push_back(id);
      continue;
    }
    const auto fallback = [&](char b) { return fallback_ids_[static_cast<unsigned char>(b)]; };
    // As in the `tokenizers` library, an unknown that waits to be fused stays behind the bytes that follow
    // it.
    if (options_.byte_fallback &&
        std::all_of(character.begin(), character.end(), [&](char b) { return fallback(b) >= 0; })) {
      for (const char b : character) work.symbols.push_back(fallback(b));
      continue;
    }
    if (!options_.unk_token) continue;  // without an unknown token such a character disappears
    INGOT_CHECK(unk_id_ >= 0,
                InvalidConfig("model.unk_token",
                              fmt::format("\"{}\" is not in the vocabulary, and the text needs it for \"{}\"",
                                          *options_.unk_token, character)));
    if (!options_.fuse_unk) flush_unk();
    pending_unk = true;
  }
  flush_unk();
}

void BpeModel::merge(Workspace& work) const {
  if (work.symbols.size() < 2) return;
  if (work.symbols.size() <= kFewSymbols)
    merge_few(work);
  else
    merge_many(work);
}

void BpeModel::merge_few(Workspace& work) const {
  auto& symbols = work.symbols;
  auto& candidates = work.candidates;
  const auto candidate = [&](std::size_t i) -> Workspace::Candidate {
    const Merge* found = merges_.find({symbols[i], symbols[i + 1]});
    return found != nullptr ? Workspace::Candidate{found->rank, found->id}
                            : Workspace::Candidate{kNoMerge, 0};
  };
  candidates.clear();
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) candidates.push_back(candidate(i));
  while (!candidates.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i)
      if (candidates[i].rank < candidates[best].rank) best = i;
    if (candidates[best].rank == kNoMerge) return;
    const auto at = static_cast<std::ptrdiff_t>(best);
    symbols[best] = candidates[best].id;
    symbols.erase(symbols.begin() + at + 1);
    candidates.erase(candidates.begin() + at);
    if (best < candidates.size()) candidates[best] = candidate(best);
    if (best > 0) candidates[best - 1] = candidate(best - 1);
  }
}

void BpeModel::merge_many(Workspace& work) const {
  auto& links = work.links;
  auto& heap = work.heap;
  const auto n = static_cast<std::int32_t>(work.symbols.size());
  links.clear();
  heap.clear();
  for (std::int32_t i = 0; i < n; ++i)
    links.push_back({work.symbols[static_cast<std::size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1});
  const auto link = [&](std::int32_t i) -> Workspace::Link& { return links[static_cast<std::size_t>(i)]; };
  const auto push = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const Merge* found = merges_.find({link(left).id, link(right).id});
    if (found == nullptr) return;
    heap.push_back({found->rank, left, found->id});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  for (std::int32_t i = 0; i + 1 < n; ++i) push(i, i + 1);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const auto top = heap.back();
    heap.pop_back();
    Workspace::Link& left = link(top.position);
    if (left.id < 0 || left.next < 0) continue;  // merged into its left neighbour, or the last one now
    const Merge* found = merges_.find({left.id, link(left.next).id});
    if (found == nullptr || found->id != top.id) continue;  // a neighbour has changed since
    Workspace::Link& right = link(left.next);
    left.id = top.id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) link(left.next).prev = top.position;
    push(left.prev, top.position);
    push(top.position, left.next);
  }
  work.symbols.clear();
  for (const auto& l : links)
    if (l.id >= 0) work.symbols.push_back(l.id);
}

std::vector<Pair> BpeModel::ranked_merges() const {
  std::vector<std::pair<std::int32_t, Pair>> ranked;
  ranked.reserve(merges_.size());
  merges_.for_each([&](Pair pair, const Merge& merge) { ranked.emplace_back(merge.rank, pair); });
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  });
  std::vector<Pair> pairs;
  pairs.reserve(ranked.size());
  for (const auto& [rank, pair] : ranked) pairs.push_back(pair);
  return pairs;
}

void BpeModel::write_json(const std::function<void(std::string_view)>& write) const {
  const auto optional = [](const std::optional<std::string>& s) { return s ? json_string(*s) : "null"; };
  write("{\n    \"type\": \"BPE\",\n");
  write(fmt::format("    \"dropout\": {},\n",
                    options_.dropout ? fmt::format("{}", *options_.dropout) : "null"));
  write(fmt::format("    \"unk_token\": {},\n", optional(options_.unk_token)));
  write(
      fmt::format("    \"continuing_subword_prefix\": {},\n", optional(options_.continuing_subword_prefix)));
  write(fmt::format("    \"end_of_word_suffix\": {},\n", optional(options_.end_of_word_suffix)));
  write(fmt::format("    \"fuse_unk\": {},\n    \"byte_fallback\": {},\n    \"ignore_merges\": {},\n",
                    options_.fuse_unk, options_.byte_fallback, options_.ignore_merges));
  write_json_vocabulary(vocabulary_, write);
  // "left right" is read by every version of the library; a token with a space in it needs the list form.
  bool spaces = false;
  for (std::int32_t id = 0; id < vocabulary_.id_limit() && !spaces; ++id)
    spaces = vocabulary_.token(id).find(' ') != std::string_view::npos;
  write(",\n    \"merges\": [");
  std::string_view separator = "\n      ";
  for (const Pair pair : ranked_merges()) {
    const std::string left(vocabulary_.token(pair.left)), right(vocabulary_.token(pair.right));
    write(separator);
    write(spaces ? fmt::format("[{}, {}]", json_string(left), json_string(right))
                 : json_string(left + " " + right));
    separator = ",\n      ";
  }
  write("\n    ]\n  }");
}

}  // namespace ingot::text
