"""Update rules against torch's optimisers and against plain formulas."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from veldt.functional.updates import Adam, RMSProp, UpdateRule, _is_fused, clip_by_norm

SIZE, STEPS, RATE = 37, 1000, 1e-3
NONE = torch.zeros(0, dtype=torch.bfloat16)  # no bf16 copy
RULES = [Adam(), Adam(epsilon_hat=True), RMSProp(), RMSProp(epsilon_inside=False), RMSProp(initial=1.0)]


def gradients() -> Tensor:
    """[STEPS, SIZE]: of very different sizes, and some of them zero, as real ones are.

    In double precision, so that a comparison sees the formula and not the order of roundings.
    """
    generator = torch.Generator().manual_seed(0)
    scale = torch.logspace(-4, 1, SIZE)
    steps = torch.randn(STEPS, SIZE, generator=generator, dtype=torch.float64) * scale
    steps[:, ::9] = 0
    return steps


def run(rule: UpdateRule, steps: Tensor) -> Tensor:
    parameters = torch.ones(steps.shape[1], dtype=steps.dtype)
    state = rule.state(parameters)
    for gradient in steps:
        rule.apply(parameters, gradient.clone(), state, RATE, NONE)
    return parameters


def run_torch(make: type[torch.optim.Optimizer], steps: Tensor, **settings: object) -> Tensor:
    parameter = torch.nn.Parameter(torch.ones(SIZE, dtype=steps.dtype))
    optimiser = make([parameter], lr=RATE, **settings)
    for gradient in steps:
        parameter.grad = gradient.clone()
        optimiser.step()
    return parameter.detach()


@pytest.mark.parametrize("epsilon", [1e-5, 1e-8])
def test_adam_equals_torch(epsilon: float) -> None:
    reference = run_torch(torch.optim.Adam, gradients(), betas=(0.9, 0.999), eps=epsilon)
    torch.testing.assert_close(run(Adam(epsilon=epsilon), gradients()), reference, rtol=0, atol=1e-12)


def test_adam_equals_torch_in_single_precision() -> None:
    steps = gradients().float()
    reference = run_torch(torch.optim.Adam, steps, betas=(0.9, 0.999), eps=1e-5)
    torch.testing.assert_close(run(Adam(), steps), reference, rtol=0, atol=1e-6)


def test_adam_uses_its_betas() -> None:
    reference = run_torch(torch.optim.Adam, gradients(), betas=(0.5, 0.9), eps=1e-3)
    own = run(Adam(beta_1=0.5, beta_2=0.9, epsilon=1e-3), gradients())
    torch.testing.assert_close(own, reference, rtol=0, atol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-5, 1e-2])
@pytest.mark.parametrize("copies", [1, 4000], ids=["small", "compiled"])
def test_adam_with_epsilon_hat(copies: int, epsilon: float) -> None:
    """As at the end of section 2 of Kingma & Ba."""
    parameters, mean, square = np.ones(SIZE), np.zeros(SIZE), np.zeros(SIZE)
    steps = gradients()[:100]
    for t, gradient in enumerate(steps.numpy(), start=1):
        rate = RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        parameters -= rate * mean / (np.sqrt(square) + epsilon)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        own = run(
            Adam(epsilon=epsilon, epsilon_hat=True), steps.tile(copies).float() if copies > 1 else steps
        )
    finally:
        torch.set_num_threads(before)
    assert _is_fused(own) == (copies > 1)
    tolerance = 1e-6 if copies > 1 else 1e-12
    np.testing.assert_allclose(own[-SIZE:], parameters, rtol=0, atol=tolerance)


@pytest.mark.parametrize("epsilon", [1e-5, 1e-2])
def test_rmsprop_with_epsilon_outside_the_root_equals_torch(epsilon: float) -> None:
    reference = run_torch(torch.optim.RMSprop, gradients(), alpha=0.99, eps=epsilon)
    own = run(RMSProp(0.99, epsilon, epsilon_inside=False), gradients())
    torch.testing.assert_close(own, reference, rtol=0, atol=1e-12)


@pytest.mark.parametrize("initial", [0.0, 1.0])
@pytest.mark.parametrize("epsilon", [1e-5, 0.1])
def test_rmsprop_with_epsilon_inside_the_root(epsilon: float, initial: float) -> None:
    parameters, square = np.ones(SIZE), np.full(SIZE, initial)
    for gradient in gradients().numpy():
        square = 0.99 * square + 0.01 * gradient**2
        parameters -= RATE * gradient / np.sqrt(square + epsilon)
    own = run(RMSProp(0.99, epsilon, initial=initial), gradients())
    np.testing.assert_allclose(own, parameters, rtol=0, atol=1e-12)


def test_an_accumulator_from_one_makes_the_first_step_small() -> None:
    gradient = torch.full((1, 1), 0.01)
    from_zero = 1 - run(RMSProp(initial=0.0), gradient)
    from_one = 1 - run(RMSProp(initial=1.0), gradient)
    assert float(from_zero) > 2 * float(from_one)
    assert float(from_one) == pytest.approx(RATE * 0.01, rel=0.02)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("size", [5, 120_001])
def test_a_zero_gradient_moves_nothing(rule: UpdateRule, size: int) -> None:
    assert torch.equal(run(rule, torch.zeros(3, size)), torch.ones(size))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_updates_by_slices_equal_the_update_of_the_whole_vector(rule: UpdateRule) -> None:
    steps = gradients()[:100]
    sliced = torch.cat([run(rule, part) for part in steps.split([5, 1, SIZE - 6], 1)])
    assert torch.equal(sliced, run(rule, steps))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_an_update_rule_continues_from_its_state(rule: UpdateRule) -> None:
    steps = gradients()[:40]
    parameters = torch.ones(SIZE, dtype=steps.dtype)
    state = rule.state(parameters)
    for gradient in steps[:20]:
        rule.apply(parameters, gradient.clone(), state, RATE, NONE)
    state = {name: value.clone() for name, value in state.items()}
    for gradient in steps[20:]:
        rule.apply(parameters, gradient.clone(), state, RATE, NONE)
    assert torch.equal(parameters, run(rule, steps))


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_large_vectors_are_updated_like_small_ones(rule: UpdateRule) -> None:
    """Large vectors may be updated by other code."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(5, 120_001, generator=generator)
    apart = torch.cat([run(rule, part) for part in steps.split(50_000, 1)])
    torch.testing.assert_close(run(rule, steps), apart, rtol=0, atol=1e-6)


@pytest.mark.parametrize("limit", [0.5, 3.0, 1e4])
def test_gradient_clipping_equals_torch(limit: float) -> None:
    gradient = gradients()[0]
    parameter = torch.nn.Parameter(torch.zeros_like(gradient))
    parameter.grad = gradient.clone()
    reference_norm = torch.nn.utils.clip_grad_norm_([parameter], limit)
    norm = clip_by_norm(gradient, limit)
    torch.testing.assert_close(norm, reference_norm)
    torch.testing.assert_close(gradient, parameter.grad)


def test_without_a_limit_the_gradient_is_unchanged() -> None:
    gradient = gradients()[0]
    before = gradient.clone()
    assert float(clip_by_norm(gradient, 0.0)) == pytest.approx(float(before.norm()))
    assert torch.equal(gradient, before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("size", [37, 120_001])
@pytest.mark.parametrize("share", [0.0, 0.7, 1.0])
def test_the_bf16_copy_is_of_the_updated_parameters(rule: UpdateRule, size: int, share: float) -> None:
    generator = torch.Generator().manual_seed(0)
    parameters = torch.randn(size, generator=generator) * torch.logspace(-30, 30, size)
    bf16_copy = torch.zeros(int(share * size), dtype=torch.bfloat16)
    state = rule.state(parameters)
    for _ in range(3):
        rule.apply(parameters, torch.randn(size, generator=generator), state, RATE, bf16_copy)
        assert torch.equal(bf16_copy, parameters[: len(bf16_copy)].bfloat16())
