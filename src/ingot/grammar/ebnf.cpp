#include "ingot/grammar/ebnf.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"

namespace ingot::grammar {
namespace {

constexpr std::size_t kMostSourceBytes = 1 << 20;
constexpr int kMostGroups = 200;
constexpr std::uint32_t kMostCount = 100'000;
// Rules up to this size become parts of the terminals that use them; larger ones are terminals of their own,
// so that the tokens they take are worked out once.
constexpr std::size_t kInlinedSize = 300;
constexpr std::size_t kMostExpressionSize = 20'000;
constexpr std::size_t kMostNamed = 5'000;  // rules

}  // namespace

SourceReader::SourceReader(std::string_view source, std::string language)
    : source_(source), language_(std::move(language)) {
  INGOT_CHECK(source.size() <= kMostSourceBytes,
              InvalidConfig(language_,
                            fmt::format("has {} bytes; {} are the most", source.size(), kMostSourceBytes)));
  INGOT_CHECK(is_valid_utf8(source), InvalidConfig(language_, "is not UTF-8"));
}

SourceReader::Nested::Nested(SourceReader& reader) : reader_(reader) {
  if (++reader_.depth_ > kMostGroups) reader_.fail(fmt::format("groups nest deeper than {}", kMostGroups));
}

bool SourceReader::take(std::string_view word) {
  if (!rest().starts_with(word)) return false;
  at_ += word.size();
  return true;
}

char32_t SourceReader::character() {
  if (at_end()) fail("the source ends within this");
  return decode_utf8(source_, at_);
}

std::uint32_t SourceReader::number() {
  std::uint32_t value = 0;
  const std::size_t begin = at_;
  while (peek() >= '0' && peek() <= '9') {
    value = value * 10 + static_cast<std::uint32_t>(source_[at_++] - '0');
    if (value > kMostCount) fail(fmt::format("{} is the largest count", kMostCount));
  }
  if (at_ == begin) fail("a number is expected here");
  return value;
}

char32_t SourceReader::hex(std::size_t digits) {
  char32_t value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const char c = peek(), lower = static_cast<char>(c | 32);
    const bool is_digit = c >= '0' && c <= '9', is_letter = lower >= 'a' && lower <= 'f';
    if (!is_digit && !is_letter) fail(fmt::format("{} hexadecimal digits are expected here", digits));
    value = value * 16 + static_cast<char32_t>(is_digit ? c - '0' : lower - 'a' + 10);
    ++at_;
  }
  return value;
}

void SourceReader::space(bool lines, std::initializer_list<std::string_view> comments) {
  const auto begins = [this](std::string_view comment) { return rest().starts_with(comment); };
  while (!at_end()) {
    if (std::ranges::any_of(comments, begins)) {
      while (!at_end() && peek() != '\n') skip();
    } else if (peek() == ' ' || peek() == '\t' || (lines && (peek() == '\n' || peek() == '\r'))) {
      skip();
    } else {
      return;
    }
  }
}

std::string_view SourceReader::word(bool (*belongs)(char)) {
  const std::size_t begin = at_;
  while (!at_end() && belongs(peek())) ++at_;
  return source_.substr(begin, at_ - begin);
}

void SourceReader::fail_at(std::size_t position, const std::string& problem) const {
  const std::string_view before = source_.substr(0, std::min(position, source_.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t start = before.rfind('\n');
  const std::size_t column = start == before.npos ? before.size() + 1 : before.size() - start;
  throw InvalidConfig(language_, fmt::format("line {}, column {}: {}", line, column, problem));
}

std::uint32_t EbnfRules::use(std::string_view name, std::size_t position) {
  const auto [found, is_new] =
      by_name_.try_emplace(std::string(name), static_cast<std::uint32_t>(list_.size()));
  if (list_.size() >= kMostNamed)
    reader_.fail_at(position, fmt::format("there are more than {} rules", kMostNamed));
  if (is_new)
    list_.push_back({.name = std::string(name), .used_at = position, .id = rules_.add(std::string(name))});
  return found->second;
}

void EbnfRules::define(std::string_view name, std::size_t position, Ebnf body) {
  Rule& rule = list_[use(name, position)];
  if (rule.defined) reader_.fail_at(position, fmt::format("the rule '{}' is there already", name));
  rule.defined = true;
  rule.body = std::move(body);
}

bool EbnfRules::defined(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found != by_name_.end() && list_[found->second].defined;
}

// Whether the body refers to no rule that refers to itself.
bool EbnfRules::regular(const Ebnf& body, std::size_t& size) {
  if (body.kind == Ebnf::Kind::terminal) {
    size += 1;
    return true;
  }
  if (body.kind == Ebnf::Kind::rule) {
    const bool is_regular = regular(body.rule);
    size += list_[body.rule].size;
    return is_regular;
  }
  bool all = true;
  std::size_t own = 0;
  for (const Ebnf& part : body.parts) all = regular(part, own) && all;
  size += own + 1;
  return all;
}

bool EbnfRules::regular(std::uint32_t index) {
  using State = Rule::State;
  if (list_[index].state == State::unknown) {
    list_[index].state = State::at_work;
    std::size_t size = 0;
    const bool is_regular = regular(list_[index].body, size);
    if (list_[index].state == State::at_work)
      list_[index].state = is_regular ? State::regular : State::recursive;
    list_[index].size = std::min(size, std::size_t{1} << 40U);
  } else if (list_[index].state == State::at_work) {
    list_[index].state = State::recursive;
  }
  return list_[index].state == State::regular;
}

ExprId EbnfRules::expression(std::uint32_t index, std::size_t position) {
  if (!list_[index].defined)
    reader_.fail_at(position, fmt::format("the rule '{}' is not defined", list_[index].name));
  if (!regular(index)) reader_.fail_at(position, fmt::format("'{}' refers to itself", list_[index].name));
  if (list_[index].size > kMostExpressionSize)
    reader_.fail_at(position, fmt::format("'{}' is too large", list_[index].name));
  return expression(list_[index].body);
}

ExprId EbnfRules::expression(const Ebnf& body) {
  std::vector<ExprId> parts;
  for (const Ebnf& part : body.parts) parts.push_back(expression(part));
  switch (body.kind) {
    case Ebnf::Kind::terminal:
      return body.expr;
    case Ebnf::Kind::rule: {
      Rule& rule = list_[body.rule];
      if (rule.expr == 0) rule.expr = 1 + expression(rule.body);  // bodies of lists_ do not move any more
      return list_[body.rule].expr - 1;
    }
    case Ebnf::Kind::sequence:
      return expressions().concat(parts);
    case Ebnf::Kind::choice:
      return expressions().either(std::move(parts));
    case Ebnf::Kind::repeat:
      return expressions().repeat(parts.front(), body.least, body.most);
  }
  return Expressions::kEmpty;
}

Symbol EbnfRules::symbol(const Ebnf& body) {
  std::size_t size = 0;
  if (regular(body, size) && size <= kInlinedSize) return Symbol::terminal(expression(body));
  if (body.kind == Ebnf::Kind::rule) return Symbol::rule(list_[body.rule].id);
  return rules_.either({lower(body)});
}

// The symbols of a body: small regular parts as one terminal each.
Production EbnfRules::lower(const Ebnf& body) {
  std::size_t size = 0;
  if (body.kind == Ebnf::Kind::rule || (regular(body, size) && size <= kInlinedSize)) return {symbol(body)};
  if (body.kind == Ebnf::Kind::repeat)
    return rules_.repeat(symbol(body.parts.front()), body.least, body.most);
  if (body.kind == Ebnf::Kind::choice) {
    std::vector<Production> choices;
    for (const Ebnf& part : body.parts) choices.push_back(lower(part));
    return {rules_.either(choices)};
  }
  Production production;
  Ebnf together;  // terminals beside one another
  std::size_t sum = 0;
  const auto flush = [&] {
    if (!together.parts.empty()) production.push_back(Symbol::terminal(expression(together)));
    together.parts.clear();
    sum = 0;
  };
  for (const Ebnf& part : body.parts) {
    std::size_t own = 0;
    if (regular(part, own) && own <= kInlinedSize) {
      if (sum + own > kInlinedSize) flush();
      together.parts.push_back(part);
      sum += own;
      continue;
    }
    flush();
    const Production more = lower(part);
    production.insert(production.end(), more.begin(), more.end());
  }
  flush();
  return production;
}

GrammarPtr EbnfRules::finish(std::string_view root) {
  for (const Rule& rule : list_)
    if (!rule.defined) reader_.fail_at(rule.used_at, fmt::format("the rule '{}' is not defined", rule.name));
  if (!defined(root)) reader_.fail_at(0, fmt::format("there is no rule '{}' to begin with", root));
  for (std::uint32_t i = 0; i < list_.size(); ++i) regular(i);
  for (const Rule& rule : std::vector(list_)) {
    Ebnf body = rule.body;
    if (body.kind == Ebnf::Kind::choice) {
      for (const Ebnf& part : body.parts) rules_.produce(rule.id, lower(part));
    } else {
      rules_.produce(rule.id, lower(body));
    }
  }
  return rules_.finish(list_[by_name_.find(root)->second].id);
}

}  // namespace ingot::grammar
