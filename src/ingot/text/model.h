#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/vocabulary.h"
#include "ingot/text/word_cache.h"

namespace ingot::text {

/// What one encoding thread needs besides the model: buffers that keep their memory and the words seen
/// lately.
struct Workspace {
  struct Candidate {
    std::int32_t rank;
    std::int32_t id;
  };
  struct Link {
    std::int32_t id, prev, next;
  };
  struct HeapEntry {
    std::int32_t rank, position, id;
  };
  struct PathNode {
    double score;
    std::int32_t id;
    std::int32_t start;  // -1: no path ends here
  };
  struct Span {
    std::size_t begin, end;
  };

  /// Error where the vocabulary's long tokens make a text take far longer than texts do: `bytes` more were
  /// looked at.
  void spend(std::size_t bytes) {
    spent += bytes;
    if (spent > allowed) fail_for_work();
  }
  [[noreturn]] static void fail_for_work();

  std::size_t spent = 0, allowed = SIZE_MAX;  // for the text that is encoded now
  WordCache cache;
  std::vector<std::int32_t> symbols;
  std::vector<Candidate> candidates;
  std::vector<Link> links;
  std::vector<HeapEntry> heap;
  std::vector<PathNode> path;
  std::vector<Span> spans;
  std::string text;
};

/// The part of a tokenizer that turns one pre-token into ids.
class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Appends the ids of `piece` (valid UTF-8) to `ids`.
  virtual void encode(std::string_view piece, std::vector<std::int32_t>& ids, Workspace& work) const = 0;

  /// The model as the "model" object of tokenizer.json, piece by piece.
  virtual void write_json(const std::function<void(std::string_view)>& write) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

}  // namespace ingot::text
