#include "generate_options.h"

#include <algorithm>

#include "held.h"
#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/suggest.h"
#include "ingot/ops/cast.h"

namespace ingot::python {
namespace {

using infer::Constraint;
using Set = std::function<void(infer::TextOptions&, nb::handle)>;

template <class T>
Set text_option(T infer::TextOptions::*member) {
  return [member](infer::TextOptions& options, nb::handle value) { options.*member = nb::cast<T>(value); };
}
template <class T>
Set sampling_option(T SamplingOptions::*member) {
  return [member](infer::TextOptions& options, nb::handle value) {
    options.sampling.*member = nb::cast<T>(value);
  };
}

// What the text has to match: one constraint at most.
void set_constraint(infer::TextOptions& options, Constraint constraint) {
  INGOT_CHECK(options.constraint.kind == Constraint::Kind::none,
              InvalidConfig("constraint",
                            "only one of json_schema, json_object, regex, choice and grammar can be given"));
  options.constraint = std::move(constraint);
}

// Logits as a tensor of their own, which the function may keep, and back.
void process_logits(nb::handle function, std::span<float> logits, std::span<const std::int32_t> history) {
  const auto size = static_cast<std::int64_t>(logits.size());
  const Tensor given = Tensor::from(std::vector<float>(logits.begin(), logits.end()), {size});
  nb::list tokens;
  for (const std::int32_t id : history) tokens.append(id);
  const auto made = nb::cast<Tensor>(function(tokens, given));
  INGOT_CHECK(made.shape() == given.shape(),
              ShapeMismatch("logits_processor", given.shape().to_vector(), made.shape().to_vector()));
  const std::vector<float> values = to(to(made, DType::f32), kCpu).to_vector<float>();
  std::ranges::copy(values, logits.begin());
}

LogitsProcessor logits_processor(nb::handle function) {
  return [held = std::make_shared<Held>(nb::borrow(function))](std::span<float> logits,
                                                               std::span<const std::int32_t> history) {
    const AcquiredGil acquire;
    try {
      process_logits(held->get(), logits, history);
    } catch (const nb::python_error& error) {
      throw HeldError(error);
    }
  };
}

// The options of generate(), by the names of the command line, vLLM and transformers.
const std::map<std::string, Set>& generation_options() {
  static const std::map<std::string, Set> table = {
      {"max_tokens", text_option(&infer::TextOptions::max_tokens)},
      {"max_new_tokens", text_option(&infer::TextOptions::max_tokens)},
      {"stop",
       [](infer::TextOptions& o, nb::handle v) {
         o.stop = nb::isinstance<nb::str>(v) ? std::vector{nb::cast<std::string>(v)}
                                             : nb::cast<std::vector<std::string>>(v);
       }},
      {"bad_words", text_option(&infer::TextOptions::bad_words)},
      {"ignore_eos", text_option(&infer::TextOptions::ignore_end_tokens)},
      {"include_stop_str_in_output", text_option(&infer::TextOptions::include_stop)},
      {"speculate", text_option(&infer::TextOptions::speculate)},
      {"temperature", sampling_option(&SamplingOptions::temperature)},
      {"top_k", sampling_option(&SamplingOptions::top_k)},
      {"top_p", sampling_option(&SamplingOptions::top_p)},
      {"min_p", sampling_option(&SamplingOptions::min_p)},
      {"typical_p", sampling_option(&SamplingOptions::typical_p)},
      {"top_n_sigma", sampling_option(&SamplingOptions::top_n_sigma)},
      {"xtc_probability", sampling_option(&SamplingOptions::xtc_probability)},
      {"xtc_threshold", sampling_option(&SamplingOptions::xtc_threshold)},
      {"min_keep", sampling_option(&SamplingOptions::min_keep)},
      {"dynatemp_range", sampling_option(&SamplingOptions::dynatemp_range)},
      {"dynatemp_exponent", sampling_option(&SamplingOptions::dynatemp_exponent)},
      {"allowed_token_ids", sampling_option(&SamplingOptions::allowed_tokens)},
      {"mirostat", sampling_option(&SamplingOptions::mirostat)},
      {"mirostat_tau", sampling_option(&SamplingOptions::mirostat_tau)},
      {"mirostat_eta", sampling_option(&SamplingOptions::mirostat_eta)},
      {"repetition_penalty", sampling_option(&SamplingOptions::repetition_penalty)},
      {"presence_penalty", sampling_option(&SamplingOptions::presence_penalty)},
      {"frequency_penalty", sampling_option(&SamplingOptions::frequency_penalty)},
      {"repeat_last_n", sampling_option(&SamplingOptions::repeat_last_n)},
      {"no_repeat_ngram_size", sampling_option(&SamplingOptions::no_repeat_ngram_size)},
      {"min_tokens", sampling_option(&SamplingOptions::min_tokens)},
      {"seed", sampling_option(&SamplingOptions::seed)},
      {"json_schema",
       [](infer::TextOptions& o, nb::handle v) {
         set_constraint(o, {.kind = Constraint::Kind::json_schema, .source = nb::cast<std::string>(v)});
       }},
      {"json_object",
       [](infer::TextOptions& o, nb::handle v) {
         if (nb::cast<bool>(v)) set_constraint(o, {.kind = Constraint::Kind::json_object});
       }},
      {"regex",
       [](infer::TextOptions& o, nb::handle v) {
         set_constraint(o, {.kind = Constraint::Kind::regex, .source = nb::cast<std::string>(v)});
       }},
      {"choice",
       [](infer::TextOptions& o, nb::handle v) {
         set_constraint(o,
                        {.kind = Constraint::Kind::choice, .choices = nb::cast<std::vector<std::string>>(v)});
       }},
      {"grammar",
       [](infer::TextOptions& o, nb::handle v) {
         set_constraint(o, infer::grammar_constraint(nb::cast<std::string>(v)));
       }},
      {"logits_processor",
       [](infer::TextOptions& o, nb::handle v) { o.sampling.logits_processor = logits_processor(v); }},
      {"logit_bias",
       [](infer::TextOptions& o, nb::handle v) {
         for (const auto& [id, bias] : nb::cast<std::map<std::int32_t, float>>(v))
           o.sampling.logit_bias.emplace_back(id, bias);
       }},
  };
  return table;
}

}  // namespace

infer::TextOptions generate_options(const infer::Session& session, const nb::dict& given) {
  infer::TextOptions options = session.options();
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (value.is_none()) continue;
    const auto found = generation_options().find(name);
    if (found == generation_options().end()) {
      std::vector<std::string> names;
      for (const auto& [known, set] : generation_options()) names.push_back(known);
      throw InvalidConfig(name, "is not an option of generate()" + did_you_mean(name, names));
    }
    try {
      found->second(options, value);
    } catch (const nb::cast_error&) {
      throw InvalidConfig(name, "does not take " + nb::cast<std::string>(nb::repr(value)));
    }
  }
  options.sampling.end_tokens.assign(session.end_tokens().begin(), session.end_tokens().end());
  return options;
}

}  // namespace ingot::python
