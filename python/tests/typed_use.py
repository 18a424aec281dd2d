"""What type checkers know of the package: `./dev python` runs mypy and pyright over it. What is wrong on purpose says so, and where
nobody complains about it the comment is an error."""

# mypy: warn-unused-ignores
# pyright: reportUnnecessaryTypeIgnoreComment=true

import ingot

config = ingot.TrainConfig(base_model="model.gguf", adapter="lora", learning_rate=1e-4, max_steps=100)
config.lora_target_modules = ["q_proj", "v_proj"]
config.datasets = [{"path": "text.txt"}]
steps: int | None = config.max_steps
told: str = ingot.TrainConfig.describe("learning_rate")
ingot.Trainer(config, resume=True)

config.max_stepz = 3  # type: ignore
config.max_steps = "many"  # type: ignore
config.adapter = "lorra"  # type: ignore
ingot.TrainConfig(learning_rat=1e-4)  # type: ignore

logits: ingot.Tensor = ingot.conv2d(ingot.ones(1, 2, 4, 4), ingot.ones(3, 2, 3, 3), padding=(1, 1)).relu()
trial: ingot.tune.Trial | None = ingot.tune.create_study().ask()
ingot.conv2d("image", logits)  # type: ignore

model = ingot.forecast.Forecaster("dlinear", horizon=24, lookback=96, device="cpu")
rows: int | None = model.lookback
ingot.forecast.Forecaster("dlinear", lookbak=96)  # type: ignore
ingot.forecast.Forecaster("dlinear", lookback="long")  # type: ignore
