#include "ingot/grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/grammar/program.h"

namespace ingot::grammar {
namespace {

constexpr std::size_t kMostThreads = 20'000;
constexpr std::size_t kMostFrames = 4'000'000;
constexpr std::size_t kMostExits = 1'024;  // sets of tokens remembered

std::uint64_t pair_key(std::uint32_t a, std::uint32_t b) { return (std::uint64_t{a} << 32U) | b; }

void check_ambiguity(bool good) {
  INGOT_CHECK(good,
              InvalidConfig("grammar", "is too ambiguous: the text so far can be read in too many ways"));
}

}  // namespace

Matcher::Matcher(GrammarPtr grammar) : grammar_(std::move(grammar)) {
  const std::lock_guard lock(grammar_->program()->shared->mutex);
  frame(Program::kFinish, 0);
  Set first;
  Visit visit{.to = first, .seen = {}};
  for (const std::uint32_t start : grammar_->program()->starts[grammar_->program()->root])
    expand(start, 0, visit);
  std::ranges::sort(first.threads);
  states_.push_back(std::make_shared<const Set>(std::move(first)));
}

std::uint32_t Matcher::frame(std::uint32_t item, std::uint32_t parent) {
  const auto [found, is_new] =
      frame_ids_.try_emplace(pair_key(item, parent), static_cast<std::uint32_t>(frames_.size()));
  if (is_new) {
    check_ambiguity(frames_.size() < kMostFrames);
    frames_.push_back({item, parent});
    behind_.emplace_back();
  }
  return found->second;
}

// The threads that begin at an item, of a rule whose caller goes on at `parent`.
void Matcher::expand(std::uint32_t item, std::uint32_t parent, Visit& visit) {
  using Kind = Program::Item::Kind;
  const Program& program = *grammar_->program();
  Automata& automata = program.shared->automata;
  while (true) {
    if (!visit.seen.insert(pair_key(item, parent)).second) return;
    const Program::Item& here = program.items[item];
    if (here.kind == Kind::finish) {
      visit.to.finished = true;
      return;
    }
    if (here.kind == Kind::end) {
      item = frames_[parent].item;
      parent = frames_[parent].parent;
      continue;
    }
    // Nothing left behind it: its caller's caller goes on.
    const bool last = program.items[item + 1].kind == Kind::end;
    if (here.kind == Kind::rule) {
      const std::uint32_t then = last ? parent : frame(item + 1, parent);
      for (const std::uint32_t start : program.starts[here.id]) expand(start, then, visit);
      return;
    }
    if (automata.extends(here.id)) {
      check_ambiguity(visit.to.threads.size() < kMostThreads);
      visit.to.threads.push_back({here.id, last ? parent : frame(item + 1, parent)});
    }
    if (!here.nullable) return;
    ++item;
  }
}

const Matcher::Set& Matcher::behind(std::uint32_t frame) {
  if (behind_[frame] == nullptr) {
    Set set;
    Visit visit{.to = set, .seen = {}};
    expand(frames_[frame].item, frames_[frame].parent, visit);
    std::ranges::sort(set.threads);
    behind_[frame] = std::make_shared<const Set>(std::move(set));
  }
  return *behind_[frame];
}

void Matcher::step(const Set& from, unsigned char byte, Set& to) {
  Automata& automata = grammar_->program()->shared->automata;
  to.threads.clear();
  to.finished = false;
  bool sorted = true;
  for (const Thread& thread : from.threads) {
    const StateId next = automata.next(thread.state, byte);
    if (next == Automata::kDead) continue;
    if (automata.extends(next)) to.threads.push_back({next, thread.frame});
    if (!automata.accepting(next)) continue;
    const Set& more = behind(thread.frame);
    to.threads.insert(to.threads.end(), more.threads.begin(), more.threads.end());
    to.finished = to.finished || more.finished;
    sorted = false;
  }
  if (to.threads.size() < 2) return;
  if (!sorted || !std::ranges::is_sorted(to.threads)) std::ranges::sort(to.threads);
  to.threads.erase(std::unique(to.threads.begin(), to.threads.end()), to.threads.end());
  check_ambiguity(to.threads.size() < kMostThreads);
}

bool Matcher::step_all(std::string_view bytes) {
  if (bytes.empty()) return false;
  Set set = now(), next;
  for (const char byte : bytes) {
    step(set, static_cast<unsigned char>(byte), next);
    std::swap(set, next);
    if (set.threads.empty() && !set.finished) return false;
  }
  states_.push_back(std::make_shared<const Set>(std::move(set)));
  return true;
}

bool Matcher::accept(std::int32_t token) {
  const std::lock_guard lock(grammar_->program()->shared->mutex);
  return step_all(grammar_->program()->shared->automata.trie().bytes(token));
}

bool Matcher::accept_text(std::string_view bytes) {
  const std::lock_guard lock(grammar_->program()->shared->mutex);
  return step_all(bytes);
}

std::int32_t Matcher::vocab_size() const { return grammar_->program()->shared->automata.trie().vocab_size(); }

void Matcher::rollback(std::size_t count) { states_.resize(states_.size() - std::min(count, length())); }

void Matcher::fill(TokenMask& mask) {
  const std::lock_guard lock(grammar_->program()->shared->mutex);
  mask.clear();
  Automata& automata = grammar_->program()->shared->automata;
  for (const Thread& thread : now().threads) {
    for (const TokenTrie::Part part : {TokenTrie::kShort, TokenTrie::kLong}) {
      const StateId state = automata.alike(part, thread.state);
      const StateTokens& tokens = automata.tokens(part, state);
      tokens.inside.add_to(mask);
      if (!tokens.exits.empty() && !behind(thread.frame).threads.empty())
        exits_of(tokens, {state, thread.frame}, part).add_to(mask);
    }
  }
}

// Tokens that end the terminal and go on behind it.
const TokenSet& Matcher::exits_of(const StateTokens& of, const Thread& thread, std::uint32_t part) {
  const std::uint64_t key = pair_key(thread.state * 2 + part, thread.frame);
  if (const auto found = exits_.find(key); found != exits_.end()) return *found->second;
  const TokenTrie& trie = grammar_->program()->shared->automata.trie();
  if (scratch_.size() <= trie.max_depth(TokenTrie::kLong))
    scratch_.resize(trie.max_depth(TokenTrie::kLong) + 1);
  TokenMask mask(trie.vocab_size());
  const auto following = behind_[thread.frame];  // stays while frames are added
  for (const std::uint32_t node : of.exits) walk(node, *following, 0, mask);
  if (exits_.size() >= kMostExits) exits_.clear();
  return *exits_.emplace(key, std::make_shared<const TokenSet>(token_set(mask))).first->second;
}

// Tokens below the node that the threads of `set` take on.
void Matcher::walk(std::size_t node, const Set& set, std::size_t depth, TokenMask& mask) {
  const TokenTrie& trie = grammar_->program()->shared->automata.trie();
  const auto& nodes = trie.nodes();
  const std::size_t end = node + nodes[node].skip;
  for (std::size_t child = node + 1; child < end; child += nodes[child].skip) {
    Set& next = scratch_[depth];
    step(set, nodes[child].byte, next);
    if (next.threads.empty() && !next.finished) continue;
    if (nodes[child].token >= 0) trie.for_each_token(child, [&](std::int32_t id) { mask.add(id); });
    if (nodes[child].skip > 1 && !next.threads.empty()) walk(child, next, depth + 1, mask);
  }
}

}  // namespace ingot::grammar
