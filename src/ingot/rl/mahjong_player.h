#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "ingot/mahjong/arena.h"
#include "ingot/rl/mahjong_batch.h"

namespace ingot {

/// A network at the table: its most probable legal action, or with a temperature one drawn from the policy's
/// logits / temperature. Which tile a kan is of, where there are several, is the lowest.
class NetworkPlayer : public mahjong::BatchSelector {
 public:
  /// Throws InvalidConfig for a network of another game; `origin` names where it comes from.
  NetworkPlayer(std::shared_ptr<const DualPoolNet> net, const std::string& origin, double temperature = 0);
  /// Throws NonFinite where the policy is not finite. May be called from several threads.
  void select(std::span<const mahjong::Decision> decisions, std::span<mahjong::Action> actions) override;
  const DualPoolNet& net() const { return *net_; }

 private:
  std::shared_ptr<const DualPoolNet> net_;
  mahjong::EncoderOptions encoding_;
  Device device_;
  double temperature_;
  std::mutex mutex_;
};

/// A network and how it plays, as a name says: "model:DIR[,temperature=T][,device=D]". The directory's
/// network is opened. Throws InvalidConfig for a setting that is not known.
std::shared_ptr<NetworkPlayer> open_network_player(const std::string& name);

/// A player by its name: "model:..." or one of mahjong::player_named().
mahjong::Entrant entrant_named(const std::string& name);
/// The same for one seat.
mahjong::PlayerFactory mahjong_player(const std::string& name);

}  // namespace ingot
