#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ingot::text {

class JsonView;

/// The stage that turns tokens back into text. A chain passes a list of strings along; the text is their
/// concatenation. Between stages strings may hold bytes that are not UTF-8 (half characters).
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  /// Whether the text of a token never depends on its neighbours, so that text can be streamed byte by byte.
  virtual bool is_token_wise() const { return false; }
};

/// The stage that the "decoder" object of tokenizer.json describes.
std::unique_ptr<Decoder> make_decoder(const JsonView& config);

}  // namespace ingot::text
