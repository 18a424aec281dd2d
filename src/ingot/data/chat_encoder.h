#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/data/chat.h"
#include "ingot/data/instruction.h"
#include "ingot/data/sample_encoder.h"
#include "ingot/text/tokenizer.h"

namespace ingot::data {

/// Which of the tokens that end turns are learned.
enum class TrainOnEos : std::uint8_t {
  automatic,  ///< what the template's generation blocks hold; where it has none, as `turn`
  all,
  turn,  ///< those of turns that are learned
  last,  ///< that of the last turn
  none,
};
std::string_view name(TrainOnEos which);
/// InvalidConfig for `key` otherwise.
TrainOnEos parse_train_on_eos(std::string_view text, const std::string& key);

/// What of a chat is learned.
struct ChatTraining {
  std::vector<std::string> roles_to_train{"assistant"};
  bool train_on_inputs = false;  ///< every turn, whatever its role
  TrainOnEos train_on_eos = TrainOnEos::automatic;
  std::vector<std::string> eot_tokens;  ///< that end a turn, besides those that the tokenizer names
  std::string variables = "{}";         ///< of the template, a JSON object
};

/// Chats as samples. A template's {% generation %} blocks tell what is learned where it has them, and the
/// assistant alone is trained. Elsewhere it is the content of each turn of roles_to_train: what differs in
/// the chat's text when that message is replaced by another. InvalidConfig where the template is empty or an
/// eot token is not one token; TemplateError where the template is not understood.
///
/// Samples are refused, with their location: a template that fails, a chat without a turn to learn, and a
/// turn that cannot be found in the text.
SampleEncoder chat_encoder(const text::Tokenizer& tokenizer, const std::string& chat_template,
                           const ChatFields& fields, const ChatTraining& training);

/// Instructions as samples: the prompt is masked unless train_on_inputs, the answer and the end-of-text token
/// behind it are learned.
SampleEncoder instruction_encoder(const text::Tokenizer& tokenizer, const InstructionFormat& format,
                                  bool train_on_inputs);

}  // namespace ingot::data
