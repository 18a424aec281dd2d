#include "ingot/text/replacement.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/text/json_view.h"
#include "ingot/text/splitting.h"

namespace ingot::text {

Replacement::Replacement(const JsonView& config) : content_(config.string("content")) {
  const JsonView pattern = config.at("pattern");
  if (pattern.is_object() && pattern.has("String"))
    needle_ = pattern.string("String");
  else
    pattern_.emplace(compile_pattern(pattern));
}

void Replacement::apply(std::string& text) const {
  if (!pattern_) return replace_all(text, needle_, content_);
  std::string out;
  std::size_t done = 0;
  pattern_->for_each_match(text, [&](std::size_t begin, std::size_t end) {
    out.append(text, done, begin - done);
    out += content_;
    done = end;
    check_growth(out.size(), text.size());
  });
  if (done == 0 && out.empty()) return;
  out.append(text, done);
  text = std::move(out);
}

void check_growth(std::size_t now, std::size_t before) {
  constexpr std::size_t kTimes = 64, kAnyway = std::size_t{1} << 20;
  INGOT_CHECK(now <= kAnyway + kTimes * before,
              Error(fmt::format("the tokenizer's rules make over {} bytes of a text of {}", now, before)));
}

void replace_all(std::string& text, std::string_view needle, std::string_view content) {
  if (needle.empty()) return;
  std::size_t at = text.find(needle);
  if (at == std::string::npos) return;
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  std::size_t done = 0;
  for (; at != std::string::npos; at = text.find(needle, done)) {
    out.append(text, done, at - done);
    out += content;
    done = at + needle.size();
    check_growth(out.size(), text.size());
  }
  out.append(text, done);
  text = std::move(out);
}

}  // namespace ingot::text
