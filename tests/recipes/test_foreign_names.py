"""Names of settings in other libraries are answered with what the recipe has in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import veldt
from run_state import SMALL
from veldt.errors import UsageError
from veldt.recipes import RECIPES, find
from veldt.recipes.foreign_names import ABSENT, ENV, FOREIGN
from veldt.recipes.overrides import build_config, why_no_setting

# Arguments of Stable-Baselines3, of CleanRL's scripts, and of the configurations of RLlib and Acme.
SB3 = {
    "ppo": "policy n_steps n_epochs clip_range clip_range_vf normalize_advantage use_sde sde_sample_freq target_kl "
    "rollout_buffer_class stats_window_size tensorboard_log policy_kwargs verbose total_timesteps n_envs log_interval "
    "norm_obs norm_reward clip_obs normalize rollout_buffer_kwargs progress_bar reset_num_timesteps n_timesteps",
    "a2c": "policy n_steps rms_prop_eps use_rms_prop normalize_advantage",
    "dqn": "policy train_freq gradient_steps n_steps replay_buffer_class replay_buffer_kwargs optimize_memory_usage "
    "exploration_initial_eps exploration_final_eps eval_freq n_eval_episodes save_freq net_arch",
    "ddpg": "policy train_freq gradient_steps action_noise n_steps polyak",
}
CLEANRL = {
    "ppo": "exp_name torch_deterministic cuda track wandb_project_name wandb_entity capture_video save_model "
    "upload_model hf_entity env_id total_timesteps num_steps anneal_lr num_minibatches update_epochs norm_adv "
    "clip_coef clip_vloss target_kl",
    "dqn": "target_network_frequency start_e end_e train_frequency anneal_lr",
    "c51": "n_atoms v_min v_max",
    "ddpg": "policy_frequency noise_clip",
}
RLLIB = {
    "ppo": "num_workers num_rollout_workers num_env_runners num_gpus lambda kl_coeff kl_target vf_loss_coeff lr "
    "entropy_coeff sgd_minibatch_size minibatch_size num_sgd_iter rollout_fragment_length train_batch_size grad_clip "
    "fcnet_hiddens use_lstm lstm_cell_size framework lr_schedule observation_filter vf_clip_param use_kl_loss "
    "num_epochs batch_mode checkpoint_freq entropy_coeff_schedule num_gpus_per_learner train_batch_size_per_learner",
    "impala": "num_workers num_learners rollout_fragment_length num_envs_per_env_runner train_batch_size decay "
    "opt_type vtrace_clip_rho_threshold",
}
ACME = {
    "ppo": "unroll_length num_epochs ppo_clipping_epsilon entropy_cost max_gradient_norm",
    "dqn": "target_update_period min_replay_size max_replay_size importance_sampling_exponent samples_per_insert "
    "discount",
    "ddpg": "sigma target_update_period",
    "impala": "sequence_length baseline_cost entropy_cost max_gradient_norm",
}
CASES = [
    (recipe, name)
    for library in (SB3, CLEANRL, RLLIB, ACME)
    for recipe in library
    for name in library[recipe].split()
]


@pytest.mark.parametrize(("recipe", "name"), CASES)
def test_every_argument_of_other_libraries_is_answered(recipe: str, name: str) -> None:
    answer = why_no_setting(find(recipe).draft("CartPole-v1"), name)
    assert answer is not None and answer.startswith("--") and "None" not in answer
    assert "\n" not in answer and not answer.endswith(".")


@pytest.mark.parametrize(
    ("recipe", "name", "answer"),
    [
        (
            "ppo",
            "n_steps",
            "--n-steps is --batch-size divided by --num-envs here: give --batch-size N × num_envs",
        ),
        (
            "ppo",
            "num_steps",
            "--num-steps is --batch-size divided by --num-envs here: give --batch-size N × num_envs",
        ),
        ("a2c", "n_steps", "--n-steps is called --horizon here"),
        ("impala", "num_steps", "--num-steps is called --horizon here"),
        ("dqn", "n_steps", "--n-steps is called --n-step here"),
        (
            "ppo",
            "num_workers",
            "--num-workers is --processes here, the number of processes that step the envs",
        ),
        ("impala", "num_workers", "--num-workers is called --actors here"),
        ("ppo", "anneal_lr", "--anneal-lr is called --anneal-learning-rate here"),
        ("dqn", "anneal_lr", "--anneal-lr is a schedule here: give --learning-rate linear:START:0"),
        ("ppo", "norm_obs", "--norm-obs is called --normalise-observations here"),
        ("ppo", "normalize", "--normalize is --normalise-observations and --normalise-rewards here"),
        ("dqn", "normalize", "--normalize is called --normalise-observations here"),
        ("dqn", "polyak", "--polyak is --tau here: give 1 - polyak"),
        ("ppo", "polyak", "--polyak is no setting: on-policy recipes have no target network"),
        (
            "ppo",
            "train_freq",
            "--train-freq is no setting: on-policy recipes make their updates after each rollout",
        ),
        ("impala", "train_batch_size", "--train-batch-size is --unrolls × --horizon here, in steps"),
        ("a2c", "train_batch_size", "--train-batch-size is --num-envs × --horizon here, in steps"),
        (
            "dqn",
            "target_update_period",
            "--target-update-period is --target-update-interval here, in steps: give target_update_period × batch_size "
            "/ training_intensity",
        ),
        ("dqn", "start_e", "--start-e is called --epsilon-start here"),
        ("dqn", "policy_delay", "--policy-delay is no setting: the actor of ddpg moves in every update"),
    ],
)
def test_the_answer_depends_on_what_the_recipe_has(recipe: str, name: str, answer: str) -> None:
    assert why_no_setting(find(recipe).draft("CartPole-v1"), name) == answer


@pytest.mark.parametrize(
    ("recipe", "name", "answer"),
    [
        (
            "a2c",
            "minibatch_size",
            "--minibatch-size is --minibatches in veldt, the number of minibatches in a pass: --batch-size divided by "
            "their size; --minibatches is none of a2c's settings: take a recipe that has it (ppo,",
        ),
        (
            "ppo",
            "prioritized_replay",
            "--prioritized-replay is --replay prioritised in veldt; --replay is about a replay buffer, and ppo learns",
        ),
        (
            "dqn",
            "entropy_coeff",
            "--entropy-coeff is called --ent-coef in veldt, and --ent-coef is none of dqn's settings: take a recipe",
        ),
    ],
)
def test_the_value_to_give_is_also_said_where_the_recipe_lacks_the_setting(
    recipe: str, name: str, answer: str
) -> None:
    said = why_no_setting(find(recipe).draft("CartPole-v1"), name)
    assert said is not None and said.startswith(answer)


def test_the_intensity_is_explained() -> None:
    with pytest.raises(
        UsageError, match=r"^--train-freq is --training-intensity here, how often each step is used"
    ):
        build_config(find("dqn").draft("CartPole-v1"), {"train_freq": 4})


def test_the_answers_name_settings_and_are_no_settings() -> None:
    known = set().union(*(recipe.setting_names() for recipe in RECIPES.values()))
    assert {here.setting for choices in FOREIGN.values() for here in choices} <= known | {ENV}
    assert not (FOREIGN.keys() | ABSENT.keys()) & (known - {"horizon"})
    assert not FOREIGN.keys() & ABSENT.keys()


def test_the_functions_of_the_api_answer_names_of_other_libraries(tmp_path: Path) -> None:
    run = tmp_path / "run"
    veldt.train("a2c", env="CartPole-v1", run_dir=run, steps=64, env_backend="in-process", quiet=True)
    calls: list[tuple[Any, dict[str, Any], str]] = [
        (veldt.train, {"env_id": "CartPole-v1"}, "--env-id is called --env here"),
        (
            veldt.train,
            {"env": "CartPole-v1", "total_timesteps": 9},
            "--total-timesteps is called --steps here",
        ),
        (veldt.resume, {"total_timesteps": 9}, "--total-timesteps is called --steps here"),
        (veldt.resume, {"env_id": "CartPole-v1"}, "--env-id is called --env here"),
        (
            veldt.resume,
            {"eval_freq": 9},
            "--eval-freq is --evaluate-every here, in steps of all envs together",
        ),
        (
            veldt.resume,
            {"n_steps": 9},
            "--n-steps is called --horizon in veldt, which cannot change when a run",
        ),
        (
            veldt.resume,
            {"n_epochs": 9},
            "--n-epochs is called --epochs in veldt, which cannot change when a run",
        ),
        (
            veldt.resume,
            {"horizon": 9},
            "--horizon cannot change when a run is resumed: only --steps, --until",
        ),
        (veldt.resume, {"use_sde": True}, "--use-sde is no setting: there is no state-dependent exploration"),
        (veldt.resume, {"stepz": 9}, "no setting 'stepz' (did you mean 'steps'?): steps, until, "),
        (
            veldt.evaluate,
            {"n_eval_episodes": 9},
            "--n-eval-episodes is --episodes here, the number of episodes",
        ),
        (veldt.evaluate, {"deterministic": True}, "--deterministic is called --greedy here"),
        (
            veldt.record_starts,
            {"n_eval_episodes": 9},
            "--n-eval-episodes is --starts here, one in each episode",
        ),
        (veldt.load, {"best_model": True}, "--best-model is called --best here"),
    ]
    for function, given, said in calls:
        with pytest.raises(UsageError) as refused:
            function(*([] if function is veldt.train else [run]), **given)
        assert str(refused.value).startswith(said)
    with pytest.raises(TypeError, match="episods"):
        veldt.evaluate(run, episods=9)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ppo",), 'env is missing: give the environment to train on, as in train("ppo", "CartPole-v1")'),
        ((), "env is missing"),
        (
            ("CartPole-v1",),
            "the environment is the second argument, as in .*, and 'CartPole-v1' is no recipe",
        ),
    ],
)
def test_a_call_without_an_environment_says_where_it_goes(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(").replace(")", r"\)")):
        veldt.train(*arguments)


def test_the_environment_is_the_second_argument(tmp_path: Path) -> None:
    run = veldt.train("ppo", "CartPole-v1", steps=64, run_dir=tmp_path / "run", quiet=True, **SMALL)
    assert run.summary["env"] == "CartPole-v1"
