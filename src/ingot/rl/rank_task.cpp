#include "ingot/rl/rank_task.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/mahjong/labels.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr std::uint64_t kRankStream = 0x72616E6B;
constexpr std::size_t kContext = mahjong::kRankContext;

void append_game(const mahjong::GameLog& log, RankExamples& examples) {
  const mahjong::LabelledGame game = mahjong::label_game(log);
  if (!game.over) return;
  for (const mahjong::RoundStart& start : game.starts)
    for (int seat = 0; seat < 4; ++seat) {
      const auto context = mahjong::rank_context(seat, start.scores, start.round, start.honba);
      examples.contexts.insert(examples.contexts.end(), context.begin(), context.end());
      examples.orders.push_back(mahjong::order_seen_by(seat, game.scores, log.rules));
    }
}

Tensor rank_loss(const RankNet& net, const RankExamples& examples, std::span<const std::size_t> rows) {
  std::vector<float> contexts;
  std::vector<std::int64_t> orders;
  contexts.reserve(rows.size() * kContext);
  orders.reserve(rows.size());
  for (const std::size_t row : rows) {
    const auto first = examples.contexts.begin() + static_cast<std::ptrdiff_t>(row * kContext);
    contexts.insert(contexts.end(), first, first + static_cast<std::ptrdiff_t>(kContext));
    orders.push_back(examples.orders[row]);
  }
  const Device device = net.layers.layers.front()->bias.value.device();
  const auto batch = static_cast<std::int64_t>(rows.size());
  const Tensor x = to(Tensor::from(contexts, {batch, static_cast<std::int64_t>(kContext)}), device);
  return cross_entropy(net(x), to(Tensor::from(orders, {batch}), device));
}

}  // namespace

RankExamples rank_examples(const mahjong::GameIndex& index) {
  const std::vector<mahjong::IndexedGame>& games = index.games();
  std::vector<RankExamples> each(games.size());
  parallel_share(std::ssize(games), 1, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      try {
        append_game(mahjong::read_log(games[i].path, index.rules()), each[i]);
      } catch (const Error&) {  // it was there when the index was made
        each[i] = {};
      }
    }
  });
  RankExamples all;
  for (const RankExamples& one : each) {
    all.contexts.insert(all.contexts.end(), one.contexts.begin(), one.contexts.end());
    all.orders.insert(all.orders.end(), one.orders.begin(), one.orders.end());
  }
  return all;
}

RankTask::RankTask(RankNet& net, const mahjong::GameIndex& games, const mahjong::GameIndex& validation,
                   const RankOptions& options, dist::Communicator* ranks)
    : net_(net),
      options_(options),
      digest_(games.digest()),
      train_(rank_examples(games)),
      validation_(rank_examples(validation)),
      optimizer_(ModuleRef(net), options.optimizer, options.schedule, 0,
                 shared_by(ranks, options.zero_stage)),
      ranks_(ranks != nullptr && ranks->size() > 1 ? ranks : nullptr) {
  if (ranks_ != nullptr)
    parallel_.emplace(*ranks_, optimizer_.parameters(), DataParallelOptions{.shard = optimizer_.shard()});
  INGOT_CHECK(!train_.orders.empty(), InvalidConfig("games", "holds no game that was played to its end"));
  INGOT_CHECK(net.config.context == mahjong::kRankContext,
              InvalidConfig("context", fmt::format("is {}, expected {}", net.config.context, kContext)));
}

StepWork RankTask::gradients(std::int64_t step, const StopCheck& /*stops*/) {
  Rng random(
      RngKey{.seed = options_.seed, .stream = mix_stream(kRankStream, static_cast<std::uint64_t>(step))});
  std::vector<std::size_t> rows(static_cast<std::size_t>(options_.batch_size));
  for (std::size_t& row : rows) row = random.below(train_.orders.size());
  const auto learn = [&](dist::Slice own, double share) {
    const Tensor mean = rank_loss(net_, train_, std::span(rows).subspan(own.begin, own.size())),
                 loss = share == 1 ? mean : mean * share;
    backward(loss);
    return reshape(loss.detach(), {1});
  };
  if (ranks_ != nullptr) ranks_->set_activity(fmt::format("step {}", step + 1));
  const Tensor loss =
      ranks_ != nullptr ? parallel_->learn_shares(rows.size(), 1, learn) : learn({0, rows.size()}, 1);
  const ClippedNorm clipped = optimizer_.measure_gradients();
  const std::vector<Tensor> metrics{loss, reshape(clipped.norm.detach(), {1})};
  return {.metrics = concat(metrics, 0), .grad_scale = clipped.factor};
}

std::optional<double> RankTask::evaluate(const StopCheck& /*stops*/) {
  if (validation_.orders.empty()) return std::nullopt;
  const NoGrad no_grad;
  std::vector<std::size_t> rows(validation_.orders.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  return rank_loss(net_, validation_, rows).item();
}

std::string RankTask::settings() const {
  return dump_json(nlohmann::ordered_json{{"games", digest_},
                                          {"batch_size", options_.batch_size},
                                          {"seed", options_.seed},
                                          {"optimizer", options_.optimizer.name},
                                          {"learning_rate", options_.optimizer.learning_rate},
                                          {"weight_decay", options_.optimizer.weight_decay}});
}

}  // namespace ingot
