// Tokenizers, language models as modules to train, and sentence embedders.
#include <algorithm>
#include <span>

#include "bindings.h"
#include <nanobind/stl/unique_ptr.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/parallel.h"
#include "ingot/base/parallel_threads.h"
#include "ingot/core/device_config.h"
#include "ingot/hub/resolve.h"
#include "ingot/infer/sentence_embedder.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/view.h"

namespace ingot::python {
namespace {

using Ids = std::vector<std::int32_t>;

void bind_tokenizer(nb::module_& module) {
  using text::Tokenizer;
  nb::class_<Tokenizer>(module, "Tokenizer",
                        "Text to token ids and back, with the ids of Hugging Face's tokenizers.")
      .def(
          "__init__",
          [](Tokenizer* self, const std::string& path) {
            const ReleasedGil release;
            new (self) Tokenizer(open_tokenizer(hub::resolve_model(path)));
          },
          "path"_a)
      .def(
          "encode",
          [](const Tokenizer& self, std::string_view text, bool add_special_tokens) {
            return self.encode(text, {.add_special_tokens = add_special_tokens});
          },
          "text"_a, "add_special_tokens"_a = true, ReleaseGil(), "The ids of a text.")
      .def(
          "encode_batch",
          [](const Tokenizer& self, const std::vector<std::string>& texts, bool add_special_tokens) {
            const std::vector<std::string_view> views(texts.begin(), texts.end());
            return self.encode_batch(views, {.add_special_tokens = add_special_tokens});
          },
          "texts"_a, "add_special_tokens"_a = true, ReleaseGil(), "The ids of each text, on all threads.")
      .def(
          "decode",
          [](const Tokenizer& self, const Ids& ids, bool skip_special_tokens) {
            return self.decode(ids, skip_special_tokens);
          },
          "ids"_a, "skip_special_tokens"_a = true, ReleaseGil(), "The text of ids.")
      .def("token_to_id", &Tokenizer::token_to_id, "token"_a, "The id of a token; None where there is none.")
      .def(
          "id_to_token",
          [](const Tokenizer& self, std::int32_t id) { return std::string(self.id_to_token(id)); }, "id"_a,
          "The token of an id.")
      .def("__len__", &Tokenizer::vocab_size)
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size, "How many ids there are.")
      .def_prop_ro("bos_id", &Tokenizer::bos_id, "The id that begins a text; None where there is none.")
      .def_prop_ro("eos_id", &Tokenizer::eos_id, "The id that ends a text; None where there is none.")
      .def_prop_ro("pad_id", &Tokenizer::pad_id, "The id that fills a batch up; None where there is none.")
      .def_prop_ro(
          "chat_template", [](const Tokenizer& self) { return self.config().chat_template; },
          "The Jinja template of conversations; empty where there is none.");
}

std::unique_ptr<LanguageModel> load_model(const std::string& path, const std::string& device,
                                          nb::handle dtype, bool trainable) {
  LoadOptions options{.device = choose_device(device), .trainable = trainable};
  if (!dtype.is_none()) options.dtype = to_dtype(dtype);
  const ReleasedGil release;
  return load_language_model(hub::resolve_model(path), options);
}

nb::list parameters_of(LanguageModel& model) {
  nb::list result;
  for (const auto& [name, parameter] : named_parameters(model))
    result.append(nb::make_tuple(name, parameter->value));
  return result;
}

void bind_model(nb::module_& module) {
  nb::class_<LanguageModel>(
      module, "LanguageModel",
      "A decoder-only transformer as a module: logits, loss and parameters, for training loops of one's own.")
      .def_static("from_pretrained", load_model, "path"_a, "device"_a = "auto", "dtype"_a = nb::none(),
                  "trainable"_a = true,
                  "Opens a directory of Hugging Face's layout, a .gguf file, or a name on the Hub.")
      .def(
          "__call__",
          [](const LanguageModel& self, const Tensor& tokens) {
            return self.logits(self.hidden(DecoderInput{.tokens = tokens}));
          },
          "tokens"_a, ReleaseGil(),
          "Logits [batch, sequence, vocab] of tokens, int64 or int32 [batch, sequence].")
      .def(
          "loss",
          [](const LanguageModel& self, const Tensor& tokens, const Tensor& targets) {
            return self.loss({.tokens = tokens}, targets);
          },
          "tokens"_a, "targets"_a, ReleaseGil(),
          "Mean cross-entropy of ``targets`` (int64 or int32 [batch, sequence], already shifted; -100 is "
          "none), without ever\n"
          "holding all logits.")
      .def("named_parameters", parameters_of, "(name, tensor) of every parameter.")
      .def(
          "parameters",
          [](LanguageModel& self) {
            nb::list result;
            for (Parameter* parameter : parameters(self)) {
              if (parameter->trainable()) result.append(parameter->value);
            }
            return result;
          },
          "Those that train.")
      .def(
          "state_dict", [](LanguageModel& self) { return parameter_map(self); },
          "Every parameter by name, sharing its memory.")
      .def(
          "save",
          [](LanguageModel& self, const std::string& directory) {
            write_language_model(directory, self.config, parameter_map(self));
          },
          "directory"_a, ReleaseGil(),
          "Writes config.json and model.safetensors as Hugging Face tools open them.")
      .def_prop_ro(
          "model_type", [](const LanguageModel& self) { return self.config.model_type; },
          "The family, as config.json names it: ``\"llama\"``.")
      .def_prop_ro(
          "vocab_size", [](const LanguageModel& self) { return self.config.vocab_size; },
          "Tokens that logits are of.")
      .def_prop_ro(
          "device", [](const LanguageModel& self) { return to_string(self.device()); }, "Where the model is.")
      .def(
          "num_parameters",
          [](LanguageModel& self, bool only_trainable) { return count_parameters(self, only_trainable); },
          "only_trainable"_a = false, "How many numbers the parameters have.");
}

// Ctrl-C ends the work between two parts of so many texts, each of which fills many batches.
constexpr std::size_t kTextsAtOnce = 512;

Tensor embed_interruptibly(const SentenceEmbedder& self, std::span<const std::string_view> texts,
                           const std::string& prompt) {
  if (texts.size() <= kTextsAtOnce) return self.embed(texts, prompt);
  std::vector<Tensor> parts;
  parts.reserve(texts.size() / kTextsAtOnce + 1);
  const std::int64_t prompt_tokens = self.prompt_tokens(prompt);
  for (std::size_t at = 0; at < texts.size(); at += kTextsAtOnce) {
    const auto part = texts.subspan(at, std::min(kTextsAtOnce, texts.size() - at));
    parts.push_back(self.embed_ids(self.encode(part, prompt), prompt_tokens, at));
    const AcquiredGil acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  return concat(parts);
}

// `prompt` stands for the one of a name; without either it is the model's own.
Tensor embed_texts(const SentenceEmbedder& self, const std::vector<std::string>& texts,
                   const std::string& prompt_name, const std::optional<std::string>& prompt,
                   const std::optional<std::int64_t>& dimensions, bool normalize) {
  const NoGrad guard;
  INGOT_CHECK(!prompt || prompt_name.empty(),
              InvalidConfig("prompt", "stands for prompt_name; give one of them"));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  Tensor vectors = embed_interruptibly(self, views, prompt ? *prompt : self.config().prompt(prompt_name));
  if (dimensions) vectors = truncated(vectors, *dimensions);
  return normalize ? normalized(vectors) : vectors;
}

void bind_embedder(nb::module_& module) {
  nb::class_<SentenceEmbedder>(module, "_Embedder")
      .def_static(
          "open",
          [](const std::string& path, const std::string& format, const std::string& device) {
            return SentenceEmbedder::open(hub::resolve_model(path),
                                          encoder_options(format, choose_device(device)));
          },
          "path"_a, "format"_a, "device"_a, ReleaseGil())
      .def("embed", embed_texts, "texts"_a, "prompt_name"_a, "prompt"_a.none(), "dimensions"_a.none(),
           "normalize"_a, ReleaseGil())
      .def_prop_ro("prompts", [](const SentenceEmbedder& self) { return self.config().prompts; })
      .def_prop_ro("dimension", &SentenceEmbedder::dimension)
      .def_prop_ro("max_length", &SentenceEmbedder::max_length);
}

}  // namespace

void bind_language(nb::module_& module) {
  bind_tokenizer(module);
  bind_model(module);
  bind_embedder(module);
  module.def("get_num_threads", num_threads, "How many threads one operation uses at most.");
  module.def("_keep_thread_serial", keep_thread_serial);
  module.def("set_num_threads", set_num_threads, "threads"_a,
             "How many threads one operation uses at most, 1 to 4096.");
}

}  // namespace ingot::python
