#include "ingot/train/language/loss_keys.h"

#include <string>

namespace ingot {

using Table = ConfigTable<TrainConfig>;
using Field = Table::Field;

Table::Section loss_keys() {
  constexpr auto w = &TrainConfig::loss_watch;
  return {
      "Watching the loss",
      {
          {"loss_watchdog_threshold",
           w,
           &LossWatchConfig::threshold,
           {.bounds = at_least(0),
            .doc = "End the run, with a checkpoint and status 1, where the training loss is higher than this "
                   "for loss_watchdog_patience steps; 0: off."}},
          {"loss_watchdog_patience",
           w,
           &LossWatchConfig::patience,
           {.bounds = at_least(1), .unit = "steps", .doc = "In a row, with a loss that is too high."}},
          {"auto_lr_reduction",
           w,
           &LossWatchConfig::reduces_on_spikes,
           {.doc = "Halve the learning rate where the loss is more than three standard deviations (and 0.5) "
                   "above its mean over the last 100 steps, or the gradient's norm more than ten times its "
                   "mean: twice for 50 steps, then for the rest of the run, at most five times in all."}},
          {"plateau_steps",
           w,
           &LossWatchConfig::plateau_steps,
           {.bounds = at_least(0),
            .unit = "steps",
            .doc =
                "A plateau is where the mean training loss of so many steps is not lower than the least of "
                "as many before; 0: none is looked for."}},
          {"plateau_threshold",
           w,
           &LossWatchConfig::plateau_threshold,
           {.bounds = between(0, 1), .doc = "By this share of it."}},
          Field::words(
              "plateau_action", [](TrainConfig& c) -> PlateauAction& { return c.loss_watch.plateau_action; },
              [](const std::string& word) { return parse_plateau_action(word); },
              [](PlateauAction action) { return name(action); },
              {.choices = {"warn", "reduce", "stop"},
               .doc = "What happens there. warn: a line in the log; reduce: the learning rate is halved for "
                      "the rest of the run; stop: the run ends early."}),
      }};
}

}  // namespace ingot
