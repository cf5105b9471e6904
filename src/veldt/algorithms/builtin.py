"""Registers veldt's own algorithms."""

from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.c51 import C51, C51Config, Rainbow, RainbowConfig
from veldt.algorithms.ddpg import DDPG, DDPGConfig
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.registry import register_algorithm
from veldt.algorithms.vtrace import VTrace, VTraceConfig

register_algorithm("a2c", A2C, A2CConfig)
register_algorithm("ppo", PPO, PPOConfig)
register_algorithm("vtrace", VTrace, VTraceConfig)
register_algorithm("dqn", DQN, DQNConfig)
register_algorithm("c51", C51, C51Config)
register_algorithm("rainbow", Rainbow, RainbowConfig)
register_algorithm("ddpg", DDPG, DDPGConfig)
