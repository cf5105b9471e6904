"""Names of settings in other libraries (Stable-Baselines3, CleanRL, RLlib, Acme), and what veldt has for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from veldt.setting_text import flag

ENV = "env"  # an argument of every run, not a setting of a recipe


@dataclass(frozen=True)
class Here:
    """What a recipe that has `setting` says about a foreign name, as the end of "--name is ..."; "" where only the name
    differs."""

    setting: str
    says: str = ""

    @property
    def is_no_setting(self) -> bool:
        """Whether the recipe has nothing in the place of the foreign name."""
        return self.says.startswith("no setting")

    @property
    def says_of_veldt(self) -> str:
        """The same about a recipe that lacks `setting`: the value to give in another recipe is not the foreign one."""
        return self.says.replace(" here", " in veldt", 1)


# Names of the same meaning.
_CALLED = {
    "adam_eps": "adam_epsilon",
    "baseline_cost": "vf_coef",
    "clip_coef": "clip",
    "clip_param": "clip",
    "clip_range": "clip",
    "clip_reward": "clip_rewards",
    "clip_vloss": "clip_values",
    "decay": "rmsprop_decay",
    "discount": "gamma",
    "double_q": "double",
    "end_e": "epsilon_end",
    "entropy_coeff": "ent_coef",
    "entropy_cost": "ent_coef",
    "env_id": ENV,
    "env_name": ENV,
    "exploration_final_eps": "epsilon_end",
    "exploration_initial_eps": "epsilon_start",
    "fcnet_hiddens": "hidden",
    "features_extractor_class": "network",
    "final_epsilon": "epsilon_end",
    "grad_clip": "max_grad_norm",
    "gym_id": ENV,
    "initial_epsilon": "epsilon_start",
    "lambda": "gae_lambda",
    "lambda_": "gae_lambda",
    "learner_device": "device",
    "lr": "learning_rate",
    "lstm_cell_size": "lstm",
    "max_gradient_norm": "max_grad_norm",
    "max_replay_size": "buffer_size",
    "min_replay_size": "learning_starts",
    "n_atoms": "atoms",
    "n_envs": "num_envs",
    "n_epochs": "epochs",
    "n_timesteps": "steps",
    "net_arch": "hidden",
    "noop_max": "no_ops",
    "norm_adv": "normalise_advantages",
    "norm_obs": "normalise_observations",
    "norm_reward": "normalise_rewards",
    "normalize_advantage": "normalise_advantages",
    "normalize_advantages": "normalise_advantages",
    "normalize_input": "normalise_observations",
    "normalize_observations": "normalise_observations",
    "normalize_reward": "normalise_rewards",
    "normalize_rewards": "normalise_rewards",
    "num_actors": "actors",
    "num_atoms": "atoms",
    "num_epochs": "epochs",
    "num_learners": "learners",
    "num_minibatches": "minibatches",
    "num_sgd_iter": "epochs",
    "num_steps_sampled_before_learning_starts": "learning_starts",
    "obs_norm": "normalise_observations",
    "opt_type": "optimiser",
    "ppo_clipping_epsilon": "clip",
    "prioritized_replay_alpha": "priority_exponent",
    "prioritized_replay_beta": "importance_exponent",
    "replay_buffer_size": "buffer_size",
    "replay_size": "buffer_size",
    "rew_norm": "normalise_rewards",
    "rms_prop_eps": "rmsprop_epsilon",
    "samples_per_insert": "training_intensity",
    "sigma": "exploration_noise",
    "sigma0": "noisy_sigma",
    "start_e": "epsilon_start",
    "stop_reward": "until",
    "stop_timesteps": "steps",
    "target_network_frequency": "target_update_interval",
    "target_network_update_freq": "target_update_interval",
    "total_timesteps": "steps",
    "update_epochs": "epochs",
    "v_max": "value_max",
    "v_min": "value_min",
    "vf_loss_coeff": "vf_coef",
    "vtrace_clip_rho_threshold": "rho_bar",
}

_ROLLOUT = Here("batch_size", "--batch-size divided by --num-envs here: give --batch-size N × num_envs")
# On-policy recipes have --gae-lambda.
_AFTER_ROLLOUTS = Here("gae_lambda", "no setting: on-policy recipes make their updates after each rollout")
_NO_TARGET_NETWORK = Here("gae_lambda", "no setting: on-policy recipes have no target network")
_INTENSITY = (
    Here(
        "training_intensity",
        "--training-intensity here, how often each step is used in updates: give gradient_steps × batch_size / "
        "(train_freq × num_envs)",
    ),
    _AFTER_ROLLOUTS,
)
_BATCH = (
    Here("batch_size"),
    Here("unrolls", "--unrolls × --horizon here, in steps"),
    Here("training_rows", "--training-rows here, in steps"),
    Here("horizon", "--num-envs × --horizon here, in steps"),
)
_WORKERS = (
    Here("actors"),
    Here("processes", "--processes here, the number of processes that step the envs"),
)
_WANDB = Here(
    "log", "--log wandb here; the environment variables WANDB_PROJECT and WANDB_ENTITY name the project"
)
_MINIBATCH = Here(
    "minibatches",
    "--minibatches here, the number of minibatches in a pass: --batch-size divided by their size",
)
_EVALUATED = Here(
    "evaluate_steps", "--evaluate-steps here: an evaluation takes the whole episodes in that many steps"
)
_EVALUATE_EVERY = Here("evaluate_every", "--evaluate-every here, in steps of all envs together")
_CHECKPOINT_EVERY = Here("checkpoint_every", "--checkpoint-every here, in steps of all envs together")
_DEVICE = Here("device", "--device here: auto, cpu, cuda or cuda:N")
_ENVS = Here("num_envs", "--num-envs here, of all processes together")
# Names of another meaning: the first setting that the recipe has is the answer.
_OTHERWISE: Mapping[str, tuple[Here, ...]] = {
    "action_noise": (
        Here("exploration_noise", "--exploration-noise here, the standard deviation of Gaussian noise"),
    ),
    "anneal_lr": (
        Here("anneal_learning_rate"),
        Here("learning_rate", "a schedule here: give --learning-rate linear:START:0"),
    ),
    "checkpoint_freq": (_CHECKPOINT_EVERY,),
    "clip_range_vf": (Here("clip_values", "--clip-values here, a switch: values have the range of --clip"),),
    "cuda": (_DEVICE,),
    "entropy_coeff_schedule": (
        Here("ent_coef", "--ent-coef here, which may be a schedule, such as linear:START:END"),
    ),
    "eval_freq": (_EVALUATE_EVERY,),
    "evaluation_duration": (_EVALUATED,),
    "evaluation_interval": (_EVALUATE_EVERY,),
    "gradient_steps": _INTENSITY,
    "horizon": (_ROLLOUT,),
    "log_interval": (Here("log_every", "--log-every here, in seconds"),),
    "importance_sampling_exponent": (
        Here(
            "importance_exponent",
            "--importance-exponent here: its value at the start of the run, which moves to --importance-exponent-end",
        ),
    ),
    "lr_schedule": (
        Here("learning_rate", "--learning-rate here, which may be a schedule, such as linear:START:END"),
    ),
    "minibatch_size": (_MINIBATCH,),
    "n_eval_episodes": (_EVALUATED,),
    "normalize": (
        Here("normalise_rewards", "--normalise-observations and --normalise-rewards here"),
        Here("normalise_observations"),
    ),
    "n_steps": (Here("n_step"), Here("horizon"), _ROLLOUT),
    "num_env_runners": _WORKERS,
    "num_envs_per_env_runner": (_ENVS,),
    "num_envs_per_worker": (_ENVS,),
    "num_gpus": (_DEVICE,),
    "num_gpus_per_learner": (_DEVICE,),
    "num_rollout_workers": _WORKERS,
    "num_steps": (Here("horizon"), _ROLLOUT),
    "num_workers": _WORKERS,
    "observation_filter": (
        Here(
            "normalise_observations", "--normalise-observations here, a switch: it is RLlib's MeanStdFilter"
        ),
    ),
    "policy": (Here("network", "--network here; auto takes one that suits the observations"),),
    "policy_kwargs": (
        Here(
            "hidden",
            "--hidden here for the sizes of layers, and --network or --model for a network of your own",
        ),
    ),
    "polyak": (Here("tau", "--tau here: give 1 - polyak"), _NO_TARGET_NETWORK),
    "prioritized_replay": (Here("replay", "--replay prioritised here"),),
    "rollout_fragment_length": (Here("horizon"), _ROLLOUT),
    "save_freq": (_CHECKPOINT_EVERY,),
    "sequence_length": (Here("horizon"), _ROLLOUT),
    "sgd_minibatch_size": (_MINIBATCH,),
    "tensorboard_log": (
        Here("log", "--log tensorboard here, the default, which writes into the run's directory (--run-dir)"),
    ),
    "track": (_WANDB,),
    "train_batch_size": _BATCH,
    "train_batch_size_per_learner": (
        Here(
            "batch_size",
            "--batch-size here: of all learners together where they make updates together, else of each",
        ),
        *_BATCH[1:],
    ),
    "train_freq": _INTENSITY,
    "train_frequency": _INTENSITY,
    "target_update_period": (
        Here(
            "target_update_interval",
            "--target-update-interval here, in steps: give target_update_period × batch_size / training_intensity",
        ),
        _NO_TARGET_NETWORK,
    ),
    "unroll_length": (Here("horizon"), _ROLLOUT),
    "use_gae": (Here("gae_lambda", "--gae-lambda here: give 1 for returns without GAE"),),
    "use_lstm": (Here("lstm", "--lstm here: give the number of units"),),
    "use_rms_prop": (
        Here("optimiser", "--optimiser here: rmsprop or another"),
        Here("rmsprop_decay", "no setting: the optimiser is RMSProp here"),
    ),
    "wandb_entity": (_WANDB,),
    "wandb_project_name": (_WANDB,),
}
FOREIGN: Mapping[str, tuple[Here, ...]] = {
    **{name: (Here(setting),) for name, setting in _CALLED.items()},
    **_OTHERWISE,
}

_UPLOAD = "no setting: veldt uploads no models; a run's directory has all that another machine needs"
_KL = "no setting: no KL divergence ends the updates; if train/approx_kl of ppo is large, lower --epochs or --clip"
_KL_PENALTY = "no setting: no loss here has a penalty for the KL divergence; --clip limits the updates of ppo"
_SDE = "no setting: there is no state-dependent exploration here"
_BUFFER = "no setting: the replay buffer's class is fixed, and --replay chooses how it samples"
_ROLLOUT_BUFFER = "no setting: a rollout is used for the updates after it, and then overwritten"
_PROGRESS = "no setting: the command always shows its progress, and veldt.train takes quiet=True"
# Names for which veldt has no setting: why, as the end of "--name is ...".
ABSENT: Mapping[str, str] = {
    "batch_mode": "no setting: every rollout has the same number of steps, and episodes continue in the next one",
    "capture_video": "no setting: `veldt watch RUN` makes a video of an episode after training",
    "clip_obs": "no setting: normalised observations are clipped to ±10 (--normalise-observations)",
    "exp_name": "no setting: --run-dir names the run's directory",
    "framework": "no setting: veldt uses PyTorch",
    "hf_entity": _UPLOAD,
    "kl_coeff": _KL_PENALTY,
    "kl_target": _KL_PENALTY,
    "noise_clip": "no setting: the actions of the target network get no noise here",
    "optimize_memory_usage": "no setting: the replay buffer always stores each frame once",
    "policy_delay": "no setting: the actor of ddpg moves in every update",
    "policy_frequency": "no setting: the actor of ddpg moves in every update",
    "progress_bar": _PROGRESS,
    "replay_buffer_class": _BUFFER,
    "replay_buffer_kwargs": _BUFFER,
    "reset_num_timesteps": "no setting: `veldt resume RUN` continues the count of steps",
    "rollout_buffer_class": _ROLLOUT_BUFFER,
    "rollout_buffer_kwargs": _ROLLOUT_BUFFER,
    "save_model": "no setting: every run writes checkpoints (--checkpoint-every)",
    "sde_sample_freq": _SDE,
    "stats_window_size": "no setting: mean returns are those of the last 100 episodes",
    "target_kl": _KL,
    "torch_deterministic": "no setting: --seed seeds all random numbers",
    "upload_model": _UPLOAD,
    "use_kl_loss": _KL_PENALTY,
    "use_sde": _SDE,
    "verbose": _PROGRESS,
    "vf_clip_param": "no setting: the error of the value is not limited; --clip-values of ppo limits its change",
}


def env_of_others(name: str) -> str | None:
    """Returns a sentence on a name that other libraries have for the argument `env`; None for another name."""
    return f"{flag(name)} is called {flag(ENV)} here" if _CALLED.get(name) == ENV else None
