#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ingot/infer/beam_search.h"
#include "ingot/infer/session.h"
#include "ingot/infer/text_stream.h"
#include "ingot/serve/fields.h"

namespace ingot::serve {

/// How a client wants its text.
struct GenerationParams {
  infer::TextOptions text;
  std::optional<std::int64_t> max_tokens{};  ///< none: the API's default
  std::vector<std::int32_t> stop_tokens{};   ///< beside the model's own
  std::string adapter{};                     ///< infer::Request::adapter
  AdapterHandle held_adapter{};              ///< likewise
  std::optional<std::int64_t> priority{};    ///< infer::Request::priority; none: its key's
  std::optional<double> timeout{};           ///< seconds that the answer may take
  std::int64_t n = 1;
  std::int64_t best_of = 1;  ///< choices that are written, of which the n most probable by token are sent
  std::optional<infer::BeamOptions> beams{};  ///< a beam search, of n beams
  std::int64_t logprobs = -1;                 ///< as infer::Request has it
  std::int64_t prompt_logprobs = -1;          ///< likewise
  infer::SpecialText special{};
  bool stream = false;
  std::int64_t stream_interval = 0;  ///< tokens of a piece of the stream at least; 0: as the server says
  bool usage_in_stream = false;      ///< a last chunk with the usage
};

/// Reads what the APIs of OpenAI and vLLM have in common, over `defaults`. Throws ApiError naming a field
/// that is wrong, or that asks for what is not built.
GenerationParams read_params(const Fields& body, const infer::TextOptions& defaults);

/// For APIs whose answers have one choice: other numbers of them are passed over, a beam search is refused.
void keep_to_one_choice(GenerationParams& params);

/// The engine's request, without a prompt. Throws and takes long as infer::Session::request() does.
infer::Request engine_request(const infer::Session& session, const GenerationParams& params);
/// The same for one of the request's choices: the seed of choice i is the request's plus i.
infer::Request request_of_choice(const infer::Request& request, std::vector<std::int32_t> prompt,
                                 std::int64_t choice);

}  // namespace ingot::serve
