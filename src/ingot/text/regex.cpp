#define PCRE2_CODE_UNIT_WIDTH 8
#include "ingot/text/regex.h"

#include <array>
#include <chrono>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <pcre2.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/text/regex_dialect.h"
#include "ingot/text/unicode_tables.h"

namespace ingot::text {

namespace {

bool has_newer_characters(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    if (newer_kind(decode_utf8(text, i)) != NewerCharacters::none) return true;
  }
  return false;
}

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};

/// One per thread: a JIT stack that grows to 1 MB, and memory for the match.
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

/// PCRE2 bounds the work of one match; this bounds that of all matches in a text.
class SearchTime {
 public:
  explicit SearchTime(std::size_t bytes)
      : end_(Clock::now() + std::chrono::seconds(10) + bytes * std::chrono::microseconds(10)) {}
  /// The clock is asked at every sixteenth match only.
  bool is_left() { return ++matches_ % 16 != 0 || Clock::now() < end_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
  std::size_t matches_ = 0;
};

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct Regex::Impl {
  struct Program {
    std::unique_ptr<pcre2_code, Deleter<pcre2_code_free_8>> code;
    bool jit = false;
  };

  Program compile(bool newer) const {
    const std::string translated = to_pcre2(pattern, newer, where);
    int error = 0;
    PCRE2_SIZE offset = 0;
    Program program;
    program.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                     &error, &offset, nullptr));
    INGOT_CHECK(program.code != nullptr,
                InvalidConfig(where, fmt::format("the pattern \"{}\" does not compile: {}", pattern,
                                                 error_text(error))));
    program.jit = pcre2_jit_compile(program.code.get(), PCRE2_JIT_COMPLETE) == 0;
    return program;
  }

  const Program& program_for(std::string_view text) const {
    if (is_ascii(text) || !has_newer_characters(text)) return usual;
    std::call_once(extended_once, [&] { extended = compile(true); });
    return extended;
  }

  std::string pattern, where;
  Program usual;
  mutable Program extended;  // knows newer characters, at the price of long classes: made when first needed
  mutable std::once_flag extended_once;
};

Regex::Regex(std::string_view pattern, const std::string& where) : impl_(std::make_unique<Impl>()) {
  impl_->pattern = pattern;
  impl_->where = where;
  impl_->usual = impl_->compile(false);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::for_each_match(std::string_view text, FunctionRef<void(std::size_t, std::size_t)> match) const {
  const Impl::Program& program = impl_->program_for(text);
  MatchState& state = match_state();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(state.data.get());
  SearchTime time(text.size());
  for (std::size_t from = 0; from <= text.size();) {
    INGOT_CHECK(time.is_left(), Error(fmt::format("pattern \"{}\" takes too long on a text of {} bytes",
                                                  impl_->pattern, text.size())));
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (program.jit)
      rc = pcre2_jit_match(program.code.get(), subject, text.size(), from, 0, state.data.get(),
                           state.context.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter keeps its stack on the heap
      rc = pcre2_match(program.code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                       state.data.get(), state.context.get());
    if (rc == PCRE2_ERROR_NOMATCH) return;
    INGOT_CHECK(rc >= 0, Error(fmt::format("pattern \"{}\" failed at byte {} of a text of {} bytes: {}",
                                           impl_->pattern, from, text.size(), error_text(rc))));
    const std::size_t begin = found[0], end = found[1];
    INGOT_CHECK(
        from <= begin && begin <= end,
        Error(fmt::format("pattern \"{}\" matches backwards (\\K in a look-around)", impl_->pattern)));
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
