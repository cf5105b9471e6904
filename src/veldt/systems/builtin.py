"""Registers veldt's own systems. Their graphs are given by name, so that reading a flag does not import all roles."""

from veldt.algorithms.capabilities import OFF_POLICY_CORRECTED, ON_POLICY, REPLAY
from veldt.config.asynchronous_settings import AsynchronousConfig
from veldt.config.ga3c_settings import Ga3cConfig
from veldt.config.gorila_settings import GorilaConfig
from veldt.config.impala_settings import ImpalaConfig
from veldt.config.system_registry import register_system
from veldt.config.system_settings import ApexConfig, SynchronousConfig

register_system("synchronous", SynchronousConfig, "veldt.systems.synchronous.graph:synchronous")
register_system("asynchronous", AsynchronousConfig, "veldt.systems.asynchronous.graph:asynchronous")
register_system("ga3c", Ga3cConfig, "veldt.systems.ga3c.graph:ga3c", needs=[ON_POLICY])
register_system("gorila", GorilaConfig, "veldt.systems.gorila.graph:gorila")
register_system("apex", ApexConfig, "veldt.systems.apex.graph:apex", needs=[REPLAY])
register_system("impala", ImpalaConfig, "veldt.systems.impala.graph:impala", needs=[OFF_POLICY_CORRECTED])
