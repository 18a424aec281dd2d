#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"

namespace ingot::text {

class JsonView;

struct Piece {
  std::string_view text;
  /// Whether the piece begins where the whole input begins.
  bool at_start;
};

/// The pieces of a text while pre-tokenizers cut and rewrite them. Views point into the input or into texts
/// that the list keeps.
class PieceList {
 public:
  /// Starts anew with one piece.
  void reset(std::string_view text, bool at_start);
  const std::vector<Piece>& pieces() const { return pieces_; }

  /// Replaces every piece by what transform(piece) emits for it. Empty pieces vanish.
  void transform(FunctionRef<void(const Piece&)> transform);
  void emit(std::string_view text, bool at_start) {
    if (!text.empty()) next_.push_back({text, at_start});
  }
  /// Throws Error where stages made more of a text than any honest ones do.
  std::string_view keep(std::string text);

 private:
  std::vector<Piece> pieces_, next_;
  std::deque<std::string> kept_;
  std::size_t size_ = 0, kept_bytes_ = 0;  // of the text, and of what stages made
};

/// The stage that cuts normalized text into pieces; the model never merges across a cut.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(PieceList& list) const = 0;
  /// Asks for pieces of plain bytes where a final ByteLevel stage would map them to printable characters.
  /// False when the last stage is another one.
  virtual bool leave_bytes() { return false; }
};

/// GPT-2's pattern (openai/gpt-2, encoder.py), which a ByteLevel stage uses by default.
extern const char* const kGpt2Pattern;

/// The stage that the "pre_tokenizer" object of tokenizer.json describes.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonView& config);

}  // namespace ingot::text
