#include "ingot/text/chat_template.h"

#include <fmt/format.h>

#include "ingot/text/jinja_eval.h"
#include "ingot/text/jinja_parser.h"
#include "ingot/text/json_write.h"

namespace ingot::text {

TemplateError::TemplateError(int line_, const std::string& problem)
    : Error(line_ > 0 ? fmt::format("chat template, line {}: {}", line_, problem) : problem), line(line_) {}

struct ChatTemplate::Impl {
  jinja::Template source;
  ChatTemplateLimits limits;
};

ChatTemplate::ChatTemplate(std::string_view source, const ChatTemplateLimits& limits)
    : impl_(std::make_unique<Impl>(Impl{jinja::parse(source, limits.depth), limits})) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

RenderedChat ChatTemplate::render_marked(const ChatInput& input) const {
  jinja::Budget budget{impl_->limits.steps, impl_->limits.output_bytes, impl_->limits.depth};
  struct Cleanup {
    jinja::Budget& budget;
    ~Cleanup() {
      // Empty every namespace before any goes, so that chains of them are not freed one inside the other.
      for (const auto& dict : budget.namespaces) {
        const auto entries = std::exchange(dict->entries, {});
      }
    }
  } cleanup{budget};
  return jinja::run(impl_->source, jinja::globals(input, budget), budget);
}

std::string messages_json(const std::vector<ChatMessage>& messages) {
  std::string out = "[";
  for (const ChatMessage& message : messages)
    out += fmt::format(R"({}{{"role": {}, "content": {}}})", out.size() > 1 ? ", " : "",
                       json_string(message.role), json_string(message.content));
  return out + "]";
}

}  // namespace ingot::text
