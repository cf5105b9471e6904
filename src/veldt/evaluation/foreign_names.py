"""Names of other libraries (Stable-Baselines3, CleanRL, RLlib) for the use of a trained policy, and what veldt has.

Those of settings are in `recipes/foreign_names.py`; here nothing imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from veldt.setting_text import flag

_ENV = "called --env here"
_RUN = "the argument RUN here, without a flag: the directory of the run"
_CHECKPOINT = "no flag here: the newest checkpoint is used, and with --best the best"
_EPISODES = "--episodes here, the number of episodes to play"
_WHOLE_EPISODES = (
    "no flag here: --episodes whole episodes are played, or the run's --evaluate-steps with --protocol atari"
)
_ONE_EPISODE = "no flag here: the video shows one episode"
_VIDEO = "no flag here: `veldt watch RUN` makes a video of an episode"
_OUT = "--out here, the file of the video"
_MADE_HERE = "no flag here: the video is always made, and --out names its file"
_CPU = "no flag here: the policy acts on the CPU; in Python veldt.load takes device="

_EPISODE_COUNTS = ("episodes", "n_episodes", "n_eval_episodes", "num_episodes")
_STEP_COUNTS = ("n_timesteps", "steps", "timesteps", "total_timesteps")
_VIDEO_FLAGS = ("capture_video", "record_video", "render", "render_mode", "video")

# Each answer is the end of "--name is ...".
OF_LOAD: Mapping[str, str] = {
    **dict.fromkeys(("env_id", "env_name", "gym_id"), _ENV),
    **dict.fromkeys(("exp_name", "folder", "load_path", "log_dir", "model_path", "run_dir"), _RUN),
    **dict.fromkeys(("checkpoint", "load_checkpoint", "load_last_checkpoint"), _CHECKPOINT),
    **dict.fromkeys(("best_model", "load_best"), "called --best here"),
    **dict.fromkeys(("cuda", "device", "num_gpus"), _CPU),
    "algo": "no flag here: the run has its algorithm",
    "deterministic": "called --greedy here",
    "explore": "what happens without --greedy here",
    "stochastic": "what happens without --greedy here",
}
OF_EVALUATE: Mapping[str, str] = {
    **OF_LOAD,
    **dict.fromkeys(_EPISODE_COUNTS[1:], _EPISODES),  # the first is a flag here
    **dict.fromkeys(("eval_episodes", "evaluation_duration", "evaluation_num_episodes"), _EPISODES),
    "num_eval_episodes": _EPISODES,
    **dict.fromkeys(("evaluate_steps", *_STEP_COUNTS), _WHOLE_EPISODES),
    **dict.fromkeys(_VIDEO_FLAGS, _VIDEO),
}
OF_WATCH: Mapping[str, str] = {
    **OF_LOAD,
    **dict.fromkeys((*_EPISODE_COUNTS, *_STEP_COUNTS, "video_length"), _ONE_EPISODE),
    **dict.fromkeys(("output_folder", "video_dir", "video_folder", "video_path"), _OUT),
    **dict.fromkeys(_VIDEO_FLAGS, _MADE_HERE),
}
OF_RECORD_STARTS: Mapping[str, str] = {
    **OF_LOAD,
    **dict.fromkeys(_EPISODE_COUNTS, "--starts here, one in each episode"),
}
OF_EXPORT: Mapping[str, str] = {
    **OF_LOAD,
    **dict.fromkeys(_EPISODE_COUNTS[1:], _EPISODES),
    **dict.fromkeys(
        ("export_dir", "output", "output_dir", "repo_id", "save_path"), "--out here, a directory"
    ),
    "opset": "no flag here: torch chooses it",
}


def answer(table: Mapping[str, str], name: str) -> str | None:
    """Returns what one of the tables says about a name, as a sentence; None for another name."""
    return f"{flag(name)} is {table[name]}" if name in table else None
