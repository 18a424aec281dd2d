#pragma once

#include <string>

namespace ingot {

/// Where trackers of experiments put a run. What is empty comes from their own environment variables
/// (WANDB_PROJECT, MLFLOW_TRACKING_URI, ...), or has their defaults.
struct Tracking {
  std::string wandb_project, wandb_entity, wandb_name, wandb_run_id;
  std::string mlflow_tracking_uri, mlflow_experiment_name, mlflow_run_name;
};

}  // namespace ingot
