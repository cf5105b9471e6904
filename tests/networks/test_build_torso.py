"""Which torso an observation gets, and what is refused."""

from __future__ import annotations

import pytest
import torch
from specs import ATARI, COLOUR, TINY, VECTOR, single, spec
from torch import Tensor, nn

from veldt.envs.spec import ArraySpec, EnvSpec
from veldt.errors import UsageError
from veldt.networks.build import DictTorso, ImageTorso, UserTorso, build_torso, image_shape, scale_of
from veldt.networks.torsos import MLP, ConvolutionalTorso, ImpalaTorso, small_net

FLAT_IMAGE = ArraySpec((30, 40), "uint8")
BATCH = 3


def build(network: object, wanted: EnvSpec) -> nn.Module:
    return build_torso(network, wanted, (32, 16))  # type: ignore[arg-type]


def inputs(wanted: EnvSpec) -> Tensor | dict[str, Tensor]:
    fields = {
        name: torch.zeros(BATCH, *field.network_shape, dtype=getattr(torch, field.dtype))
        for name, field in wanted.observation.items()
    }
    return fields if wanted.is_dict else fields[""]


def filters(torso: nn.Module) -> list[int]:
    """Filters of each convolution of an image torso: they tell the networks apart."""
    assert isinstance(torso, ImageTorso)
    assert isinstance(torso.torso, ConvolutionalTorso)
    return [convolution.out_channels for convolution in torso.torso.convolutions]


def test_auto_gives_vectors_an_mlp() -> None:
    torso = build("auto", single(VECTOR))
    assert isinstance(torso, MLP)
    assert [layer.out_features for layer in torso.layers] == [32, 16]


@pytest.mark.parametrize("field", [ATARI, COLOUR, FLAT_IMAGE])
def test_auto_gives_images_a3c_net(field: ArraySpec) -> None:
    assert filters(build("auto", single(field))) == [16, 32]


def test_auto_gives_images_of_a_few_pixels_the_small_network() -> None:
    assert filters(build("auto", single(TINY))) == [16]
    assert isinstance(build("auto", single(ArraySpec((2, 2), "uint8"))), MLP)


def test_auto_gives_each_field_of_a_dict_its_own_torso() -> None:
    wanted = spec(camera=COLOUR, velocity=VECTOR)
    torso = build("auto", wanted)
    assert isinstance(torso, DictTorso)
    assert [type(part) for part in torso.torsos] == [ImageTorso, MLP]
    assert torso(inputs(wanted)).shape == (BATCH, 256 + 16)


def test_a_field_of_a_dict_is_taken_by_its_name() -> None:
    wanted = spec(a=VECTOR, b=VECTOR)
    torso, given = build("auto", wanted), {"a": torch.ones(1, 5), "b": torch.zeros(1, 5)}
    assert torch.equal(torso(given), torso(dict(reversed(given.items()))))
    assert not torch.equal(torso(given), torso({"a": given["b"], "b": given["a"]}))


def test_a_matrix_of_floats_is_not_an_image() -> None:
    assert isinstance(build("auto", single(ArraySpec((30, 40), "float32"))), MLP)


def test_arrays_of_three_dimensions_with_bounds_are_images_whatever_their_type() -> None:
    """Planes of booleans or of numbers in [0, 1]: an MLP of all their numbers learns far more slowly."""
    assert filters(build("auto", single(ArraySpec((10, 10, 4), "float32", largest=1.0)))) == [16]
    assert isinstance(build("auto", single(ArraySpec((10, 10, 4), "float32"))), MLP)
    assert isinstance(build("auto", single(ArraySpec((30, 40), "float32", largest=1.0))), MLP)
    flattened = ArraySpec((10, 10, 4), "float32", is_box=False, largest=1.0)
    assert isinstance(build("auto", single(flattened)), MLP)


@pytest.mark.parametrize(
    ("shape", "image"),
    [
        ((3, 210, 160), (3, 210, 160)),
        ((210, 160, 3), (3, 210, 160)),
        ((84, 84, 2), (2, 84, 84)),
        ((10, 10, 6), (6, 10, 10)),
        ((7, 10, 10), (7, 10, 10)),
        ((12, 30, 40), (12, 30, 40)),
        ((30, 40, 12), (12, 30, 40)),
        ((8, 8, 119), (119, 8, 8)),  # more channels than cells a side, as in chess
        ((119, 8, 8), (119, 8, 8)),
        ((3, 3, 2), (2, 3, 3)),
        ((4, 4, 16), (16, 4, 4)),
        ((4, 104, 80), (4, 104, 80)),
        ((10, 10, 10), (10, 10, 10)),
    ],
)
def test_the_axis_of_the_channels_is_found(shape: tuple[int, ...], image: tuple[int, ...]) -> None:
    assert image_shape(shape) == image


def test_channels_are_last_where_all_sides_are_equal() -> None:
    """As in MinAtar's Seaquest, whose ten planes are 10x10."""
    assert ImageTorso((10, 10, 10), small_net, 1.0).channels_last


def test_images_may_be_given_to_an_mlp() -> None:
    torso = build("mlp", single(ATARI))
    assert isinstance(torso, MLP)
    assert torso.layers[0].in_features == 4 * 104 * 80


def test_a_convolution_may_be_asked_for_images_of_floats() -> None:
    wanted = single(ArraySpec((30, 40, 3), "float32"))
    assert build("a3c", wanted)(inputs(wanted)).shape == (BATCH, 256)


@pytest.mark.parametrize("name", ["a3c", "dqn", "impala", "small", "mlp", "auto"])
@pytest.mark.parametrize(
    "field", [ATARI, COLOUR, ArraySpec((48, 64), "uint8"), ArraySpec((3, 48, 64), "uint8")]
)
def test_every_network_takes_every_layout_of_images(name: str, field: ArraySpec) -> None:
    wanted = single(field)
    torso = build(name, wanted)
    assert torso(inputs(wanted)).shape == (BATCH, torso.features)


def test_layouts_of_one_picture_give_the_same_features() -> None:
    picture = torch.randint(0, 256, (BATCH, 48, 64, 3), dtype=torch.uint8)
    last = build("a3c", single(ArraySpec((48, 64, 3), "uint8")))
    first = build("a3c", single(ArraySpec((3, 48, 64), "uint8")))
    first.load_state_dict(last.state_dict())
    torch.testing.assert_close(last(picture), first(picture.permute(0, 3, 1, 2)))


@pytest.mark.parametrize("name", ["a3c", "dqn", "impala", "small", "mlp"])
def test_pixels_of_every_dtype_are_scaled(name: str) -> None:
    """Stacks of frames are made in the torso's own precision while training, and are uint8 when an agent acts."""
    pixels = torch.randint(0, 256, (BATCH, 4, 40, 40), dtype=torch.uint8)
    torso = build(name, single(ArraySpec((40, 40), "uint8", stack=4)))
    torch.testing.assert_close(torso(pixels), torso(pixels.float()))
    torso.to(torch.bfloat16)
    assert torch.equal(torso(pixels), torso(pixels.to(torch.bfloat16)))


@pytest.mark.parametrize("name", ["a3c", "dqn", "impala", "small", "mlp"])
@pytest.mark.parametrize("largest", [1.0, 10.0])
def test_bytes_are_scaled_by_the_bound_of_their_space(name: str, largest: float) -> None:
    cells = torch.randint(0, int(largest) + 1, (BATCH, 40, 40, 4), dtype=torch.uint8)
    torso = build(name, single(ArraySpec((40, 40, 4), "uint8", largest=largest)))
    of_floats = build(name, single(ArraySpec((40, 40, 4), "float32")))
    of_floats.load_state_dict(torso.state_dict())
    torch.testing.assert_close(of_floats(cells / largest), torso(cells), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("largest", [0.0, 255.0, float("inf")])
def test_bytes_without_a_smaller_bound_are_divided_by_255(largest: float) -> None:
    assert scale_of(ArraySpec((4,), "uint8", largest=largest)) == 1 / 255


@pytest.mark.parametrize("name", ["a3c", "dqn", "impala", "small", "mlp"])
def test_floats_are_not_scaled(name: str) -> None:
    pixels = torch.randint(0, 256, (BATCH, 4, 40, 40), dtype=torch.uint8)
    torso = build(name, single(ArraySpec((4, 40, 40), "uint8")))
    of_floats = build(name, single(ArraySpec((4, 40, 40), "float32")))
    of_floats.load_state_dict(torso.state_dict())
    torch.testing.assert_close(of_floats(pixels.float() / 255), torso(pixels), rtol=1e-4, atol=1e-4)


def test_an_unknown_network_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"no network 'impalla' \(did you mean 'impala'\?\).*auto, mlp, a3c"):
        build("impalla", single(ATARI))


@pytest.mark.parametrize(("name", "side"), [("a3c", 20), ("dqn", 36), ("impala", 8), ("small", 3)])
def test_images_too_small_for_a_network_are_refused(name: str, side: int) -> None:
    wanted = single(ArraySpec((side - 1, 50), "uint8"))
    with pytest.raises(UsageError, match=rf"'{name}' needs images of at least {side} .*\({side - 1}, 50\)"):
        build(name, wanted)
    smallest = single(ArraySpec((side, side), "uint8"))
    assert build(name, smallest)(inputs(smallest)).shape[0] == BATCH


@pytest.mark.parametrize("name", ["a3c", "dqn", "impala", "small"])
def test_a_convolution_for_a_vector_is_refused_not_ignored(name: str) -> None:
    with pytest.raises(UsageError, match=rf"'{name}' is for images.*\(5,\).*auto or mlp"):
        build(name, single(VECTOR))


def test_the_vectors_beside_an_image_get_an_mlp_under_any_name() -> None:
    torso = build("impala", spec(camera=COLOUR, velocity=VECTOR))
    assert isinstance(torso, DictTorso)
    assert isinstance(torso.torsos[0].torso, ImpalaTorso)
    assert isinstance(torso.torsos[1], MLP)


def own_torso(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 11), nn.ReLU())


class OfFields(nn.Module):
    """A user's module for a Dict."""

    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.shapes = shapes

    def forward(self, fields: dict[str, Tensor]) -> Tensor:
        return torch.cat([fields[name].flatten(1) for name in self.shapes], -1)


def test_a_factory_gets_the_shape_and_its_features_are_counted() -> None:
    torso = build(own_torso, single(VECTOR))
    assert isinstance(torso, UserTorso)
    assert torso.features == 11


def test_a_factory_for_a_dict_gets_the_shapes_by_name() -> None:
    torso = build(OfFields, spec(a=VECTOR, b=ArraySpec((2, 2), "float32")))
    assert isinstance(torso, UserTorso)
    assert torso.module.shapes == {"a": (5,), "b": (2, 2)}
    assert torso.features == 9


def test_a_factory_may_be_named() -> None:
    torso = build(f"{__name__}:own_torso", single(VECTOR))
    assert torso.features == 11


@pytest.mark.parametrize("name", ["no_such_module:f", f"{__name__}:no_such_function"])
def test_a_missing_factory_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"no network '{name}'.*module:function"):
        build(name, single(VECTOR))


def test_a_factory_that_returns_no_module_is_refused() -> None:
    with pytest.raises(UsageError, match=r"returned int: it must return an nn\.Module"):
        build(lambda shape: 3, single(VECTOR))


@pytest.mark.parametrize(
    ("module", "got"),
    [(nn.Flatten(0), r"\(10,\)"), (nn.Unflatten(1, (5, 1)), r"\(2, 5, 1\)"), (nn.LSTM(5, 4), "tuple")],
)
def test_a_network_that_returns_no_features_is_refused(module: nn.Module, got: str) -> None:
    with pytest.raises(UsageError, match=rf"returned {got} for a batch of 2.*\[N, F\]"):
        build(lambda shape: module, single(VECTOR))
