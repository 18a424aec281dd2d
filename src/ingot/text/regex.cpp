#define PCRE2_CODE_UNIT_WIDTH 8
#include "ingot/text/regex.h"

#include <array>
#include <chrono>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <pcre2.h>

#include "ingot/base/error.h"
#include "ingot/text/unicode_tables.h"
#include "ingot/text/utf8.h"

namespace ingot::text {

namespace {

/// Unicode White_Space, as a class body. PCRE2's own \s also takes U+180E, which left that property in
/// Unicode 6.3 and which Oniguruma therefore does not match.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// Oniguruma's \w: letters, marks, decimal digits, letter numbers, connectors, alphabetic symbols and six
/// Latin-1 numbers. PCRE2's has no marks.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149})"
    R"(\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

/// The characters of a general category that PCRE2 does not know yet, as a class body.
std::string newer_in(std::string_view category) {
  using N = NewerCharacters;
  const auto belongs = [&](N::Kind kind) {
    if (category == "L") return kind <= N::lo;
    if (category == "N") return kind == N::nd || kind == N::number;
    if (category == "M") return kind == N::mark;
    if (category == "P") return kind == N::punctuation;
    if (category == "S") return kind == N::symbol;
    if (category == "Lu") return kind == N::lu;
    if (category == "Ll") return kind == N::ll;
    if (category == "Lm") return kind == N::lm;
    if (category == "Lo") return kind == N::lo;
    if (category == "Nd") return kind == N::nd;
    return false;
  };
  std::string out;
  for (const N& range : newer_characters())
    if (belongs(range.kind))
      out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<unsigned>(range.first),
                         static_cast<unsigned>(range.last));
  if (category == "Han") out = R"(\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
  return out;
}

/// Writes the pattern in PCRE2's dialect. With `newer` the properties take in characters of Unicode 15
/// and 16.
class Translator {
 public:
  Translator(std::string_view pattern, bool newer) : pattern_(pattern), newer_(newer) {}

  std::string run() {
    while (i_ < pattern_.size()) {
      const char c = pattern_[i_++];
      if (c == '\\' && i_ < pattern_.size()) {
        escape(pattern_[i_++]);
        continue;
      }
      if (c == '[') ++depth_;
      if (c == ']' && depth_ > 0) --depth_;
      out_ += c;
    }
    return std::move(out_);
  }

 private:
  void put_class(std::string_view body, bool negated) {
    if (depth_ == 0)
      out_ += fmt::format("[{}{}]", negated ? "^" : "", body);
    else
      out_ += body;
  }

  void escape(char c) {
    const std::string newer_words = newer_ ? newer_in("L") + newer_in("M") + newer_in("Nd") : "";
    const bool may_negate = depth_ == 0;  // a negated class inside a class cannot be written out
    if (c == 's' || (c == 'S' && may_negate)) return put_class(kSpaces, c == 'S');
    if (c == 'w' || (c == 'W' && may_negate)) return put_class(std::string(kWord) + newer_words, c == 'W');
    if (c == 'd' || (c == 'D' && may_negate))
      return put_class(R"(\p{Nd})" + (newer_ ? newer_in("Nd") : ""), c == 'D');
    if (c == 'h' || (c == 'H' && may_negate)) return put_class("0-9a-fA-F", c == 'H');  // a hexadecimal digit
    if ((c == 'p' || c == 'P') && i_ < pattern_.size() && pattern_[i_] == '{') {
      const std::size_t end = pattern_.find('}', i_);
      if (end != std::string_view::npos) return property(c, end);
    }
    out_.append({'\\', c});
  }

  void property(char c, std::size_t end) {
    std::string_view name = pattern_.substr(i_ + 1, end - i_ - 1);
    i_ = end + 1;
    bool negated = c == 'P';
    if (name.starts_with('^')) {
      name.remove_prefix(1);
      negated = !negated;
    }
    // What is longer than a general category is a script; PCRE2 would take the script extensions too.
    const bool script = name.size() > 2 && name.find_first_of(":=_&") == std::string_view::npos;
    const std::string body =
        fmt::format("{}{{{}{}}}", negated && depth_ > 0 ? "\\P" : "\\p", script ? "sc:" : "", name);
    const std::string newer = newer_ && !(negated && depth_ > 0) ? newer_in(name) : "";
    if (depth_ == 0 && newer.empty())
      out_ += fmt::format("{}{{{}{}}}", negated ? "\\P" : "\\p", script ? "sc:" : "", name);
    else
      put_class(body + newer, negated);
  }

  std::string_view pattern_;
  bool newer_;
  std::size_t i_ = 0;
  int depth_ = 0;  // inside [...]
  std::string out_;
};

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
    const std::string translated = Translator(pattern, newer).run();
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
