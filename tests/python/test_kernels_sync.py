"""The kernels through their plain functions: what they compute, take and refuse."""

from __future__ import annotations

import array
import subprocess
import sys
import threading

import pytest
from ringloop import kernels
from ringloop.kernels import sync
from ringloop.kernels._processor import better_core

np = pytest.importorskip("numpy")

RNG = np.random.default_rng(1)
FRAME = RNG.integers(0, 256, (40, 30, 3), dtype=np.uint8)
SQUARE = RNG.random((8, 8), dtype=np.float32)


@pytest.fixture(scope="module", autouse=True)
def started_blas() -> None:
    """OpenBLAS starts its threads anew at the first product after a fork, of a test before: here,
    before the ledger looks."""
    big = RNG.random((600, 600), dtype=np.float32)
    sync.matmul(big, big)


def multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Without numpy's BLAS, which starts threads anew after a fork."""
    product: np.ndarray = np.einsum("ij,jk->ik", a, b, optimize=False)
    return product


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (64, 64, 64), (300, 2, 500), (5, 700, 3)])
def test_products_are_those_of_numpy(dtype: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = RNG.random((m, k)).astype(dtype), RNG.random((k, n)).astype(dtype)
    product = sync.matmul(a, b)
    assert product.dtype == dtype
    np.testing.assert_allclose(product, multiplied(a, b), rtol=1e-4)


def test_transposes_and_slices_are_taken_as_they_lie() -> None:
    whole = RNG.random((60, 50), dtype=np.float32)
    a, b = whole[5:25, 10:40], whole.T[3:33, :20]
    np.testing.assert_allclose(sync.matmul(a, b), multiplied(a, b), rtol=1e-4)


def test_read_only_arrays_and_memoryviews_are_inputs() -> None:
    frozen = SQUARE.copy()
    frozen.flags.writeable = False
    flat = array.array("f", range(64))
    view = memoryview(flat).cast("B").cast("f", (8, 8))
    expected = multiplied(SQUARE, np.asarray(view))
    np.testing.assert_allclose(sync.matmul(frozen, view), expected, rtol=1e-4)


def test_objects_that_speak_dlpack_only_are_inputs() -> None:
    class Tensor:
        def __dlpack__(self, **how: object) -> object:
            return SQUARE.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return SQUARE.__dlpack_device__()

    np.testing.assert_allclose(sync.matmul(Tensor(), SQUARE), multiplied(SQUARE, SQUARE), rtol=1e-4)


@pytest.mark.parametrize(
    ("a", "b", "error", "words"),
    [
        (SQUARE, SQUARE[:5], ValueError, r"\(8, 8\).*\(5, 8\)"),
        (SQUARE[0], SQUARE, ValueError, "two dimensions"),
        (SQUARE[:0], SQUARE, ValueError, "empty"),
        (SQUARE[::2, ::2], SQUARE[:4], ValueError, "ascontiguousarray"),
        (SQUARE[::-1], SQUARE, ValueError, "ascontiguousarray"),
        (np.broadcast_to(SQUARE[0], (8, 8)), SQUARE, ValueError, "ascontiguousarray"),
        (SQUARE, SQUARE.astype("float64"), TypeError, "different element types"),
        (SQUARE.astype("int32"), SQUARE, TypeError, "astype"),
        (SQUARE.astype(">f4"), SQUARE, TypeError, "native byte order"),
        ([[1.0]], SQUARE, TypeError, "a must be an array.*'list'"),
        (SQUARE, None, TypeError, "b must be an array.*'NoneType'"),
    ],
)
def test_what_matmul_cannot_take_is_refused_at_the_call(
    a: object, b: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        sync.matmul(a, b)
    with pytest.raises(error, match=words):
        kernels.matmul(a, b)


def test_a_field_of_a_packed_structure_is_refused() -> None:
    packed = np.zeros((4, 4), dtype=np.dtype([("tag", "u1"), ("value", "f4")]))
    with pytest.raises(ValueError, match="whole elements"):
        sync.matmul(packed["value"], SQUARE[:4])


def test_filters_keep_the_shape_and_see_negative_row_strides() -> None:
    grey = FRAME[:, :, 0].copy()
    assert sync.frame_filter(grey, "box3").shape == grey.shape
    flipped = sync.frame_filter(FRAME[::-1], "gaussian5")
    np.testing.assert_array_equal(flipped[::-1], sync.frame_filter(FRAME, "gaussian5"))


def test_alpha_is_copied() -> None:
    frame = RNG.integers(0, 256, (20, 20, 4), dtype=np.uint8)
    np.testing.assert_array_equal(sync.frame_filter(frame, "sobel")[..., 3], frame[..., 3])


@pytest.mark.parametrize(
    ("frame", "kind", "error", "words"),
    [
        (FRAME, "blur", ValueError, "'blur'.*gaussian5"),
        (FRAME, 3, TypeError, "kind must be a str"),
        (FRAME[:, ::2], "box3", ValueError, "ascontiguousarray"),
        (FRAME.astype("float32"), "box3", TypeError, "uint8"),
        (FRAME[0, 0], "box3", ValueError, "height, width"),
        (FRAME[:0], "box3", ValueError, "empty"),
        (np.zeros((4, 4, 2), np.uint8), "box3", ValueError, "channels"),
    ],
)
def test_what_frame_filter_cannot_take_is_refused_at_the_call(
    frame: object, kind: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        sync.frame_filter(frame, kind)  # type: ignore[arg-type]


def test_jpeg_round_trip() -> None:
    smooth = np.add.outer(np.arange(64), np.arange(48)).astype(np.uint8)
    data = sync.jpeg_encode(smooth, quality=95)
    assert isinstance(data, bytes)
    pixels = sync.jpeg_decode(bytearray(data))
    assert pixels.shape == (64, 48, 3)
    assert np.abs(pixels[..., 1].astype(int) - smooth).max() < 10


@pytest.mark.parametrize("keep", [0, 1, 2, 20, 300, -200])
def test_truncated_jpegs_raise(keep: int) -> None:
    data = sync.jpeg_encode(np.tile(FRAME, (5, 5, 1)))
    with pytest.raises(ValueError, match="jpeg_decode: "):
        sync.jpeg_decode(data[:keep])


def test_wrong_jpeg_arguments_raise() -> None:
    with pytest.raises(TypeError, match="data must be bytes-like"):
        sync.jpeg_decode("text")
    with pytest.raises(ValueError, match="1 to 100"):
        sync.jpeg_encode(FRAME, 0)
    with pytest.raises(TypeError, match="quality must be an integer"):
        sync.jpeg_encode(FRAME, 9.5)  # type: ignore[arg-type]


def test_inputs_are_released_after_the_call() -> None:
    data = bytearray(sync.jpeg_encode(FRAME))
    sync.jpeg_decode(data)
    data.append(0)  # a pinned bytearray refuses to be resized


def test_the_gil_is_free_while_a_kernel_works() -> None:
    big = RNG.random((1200, 1200), dtype=np.float32)
    counted, done = 0, threading.Event()

    def work() -> None:
        for _ in range(3):
            sync.matmul(big, big)
        done.set()

    worker = threading.Thread(target=work)
    before = kernels.compute_seconds()
    worker.start()
    while not done.is_set():
        counted += 1
    worker.join()
    assert counted > 1000
    assert kernels.compute_seconds() > before


def test_without_numpy_results_are_memoryviews() -> None:
    code = """
import sys
sys.modules["numpy"] = None
from ringloop.kernels import sync
a = memoryview(bytearray(24)).cast("f", (2, 3))
a[0, 0] = a[1, 2] = 2.0
b = memoryview(bytearray(24)).cast("f", (3, 2))
b[0, 1] = b[2, 0] = 3.0
product = sync.matmul(a, b)
assert isinstance(product, memoryview) and product.shape == (2, 2) and product.format == "f"
assert product.tolist() == [[0.0, 6.0], [6.0, 0.0]], product.tolist()
frame = memoryview(bytes(range(27))).cast("B", (3, 3, 3))
assert sync.jpeg_decode(sync.jpeg_encode(frame)).shape == (3, 3, 3)
class Tensor:
    def __dlpack__(self): ...
try:
    sync.matmul(Tensor(), b)
except TypeError as error:
    assert "needs numpy" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_newer_processor_than_openblas_knows_is_noticed() -> None:
    avx512 = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd", "avx2", "fma"})
    assert better_core("Prescott", avx512) == "SkylakeX"
    assert better_core("Prescott", frozenset({"avx2", "fma"})) == "Haswell"
    assert better_core("Prescott", frozenset()) is None
    assert better_core("Zen", avx512) is None
