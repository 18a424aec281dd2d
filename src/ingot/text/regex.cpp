#define PCRE2_CODE_UNIT_WIDTH 8
#include "ingot/text/regex.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <pcre2.h>

#include "ingot/base/error.h"
#include "ingot/text/utf8.h"

namespace ingot::text {

namespace {

/// Unicode White_Space, as a class body. PCRE2's own \s also takes U+180E, which left that property in
/// Unicode 6.3 and which Oniguruma therefore does not match.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// Translates what the two dialects write or mean differently.
std::string to_pcre2(std::string_view pattern) {
  std::string out;
  int depth = 0;  // inside [...]
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's')
        out += depth > 0 ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
      else if (next == 'S' && depth == 0)
        out += fmt::format("[^{}]", kSpaces);
      else if (next == 'h')  // a hexadecimal digit in Oniguruma, horizontal space in PCRE2
        out += depth > 0 ? "0-9a-fA-F" : "[0-9a-fA-F]";
      else
        out.append({c, next});
      continue;
    }
    if (c == '[') ++depth;
    if (c == ']' && depth > 0) --depth;
    out += c;
  }
  return out;
}

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};

/// One per thread: a JIT stack that grows to 1 MB, and room for the match.
struct MatchState {
  std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free_8>> data{
      pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free_8>> stack{
      pcre2_jit_stack_create(32 << 10, 1 << 20, nullptr)};
  std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free_8>> context{
      pcre2_match_context_create(nullptr)};
  MatchState() { pcre2_jit_stack_assign(context.get(), nullptr, stack.get()); }
};

MatchState& match_state() {
  thread_local MatchState state;
  return state;
}

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct Regex::Impl {
  std::unique_ptr<pcre2_code, Deleter<pcre2_code_free_8>> code;
  std::string pattern;
  bool jit = false;
};

Regex::Regex(std::string_view pattern, const std::string& where) : impl_(std::make_unique<Impl>()) {
  impl_->pattern = pattern;
  const std::string translated = to_pcre2(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  impl_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                                  &offset, nullptr));
  INGOT_CHECK(impl_->code != nullptr,
              InvalidConfig(
                  where, fmt::format("the pattern \"{}\" does not compile: {}", pattern, error_text(error))));
  impl_->jit = pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::for_each_match(std::string_view text, FunctionRef<void(std::size_t, std::size_t)> match) const {
  MatchState& state = match_state();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(state.data.get());
  for (std::size_t from = 0; from <= text.size();) {
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (impl_->jit)
      rc = pcre2_jit_match(impl_->code.get(), subject, text.size(), from, 0, state.data.get(),
                           state.context.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter keeps its stack on the heap
      rc = pcre2_match(impl_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                       state.data.get(), state.context.get());
    if (rc == PCRE2_ERROR_NOMATCH) return;
    INGOT_CHECK(rc >= 0, Error(fmt::format("pattern \"{}\" failed at byte {} of a text of {} bytes: {}",
                                           impl_->pattern, from, text.size(), error_text(rc))));
    const std::size_t begin = found[0], end = found[1];
    match(begin, end);
    from = end;
    if (begin == end) from += end < text.size() ? utf8_length(text[end]) : 1;
  }
}

std::string escape_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.[]|()?*+{}-#&~ \t\n\r\f\v").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace ingot::text
