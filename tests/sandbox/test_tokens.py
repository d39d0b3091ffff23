from __future__ import annotations

import pytest

from agon.sandbox.tokens import first_difference, same_output


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (b"1 2\n", b"1 2", True),
        (b"1 2\n", b"1\r\n2\r\n\n", True),
        (b"1 2", b"1 2" + b" " * 200_000, True),
        (b"1 2", b"12", False),
        (b"1 2", b"1 2 3", False),
        (b"1 2", b"1", False),
        (b"Yes", b"YES", False),
        (b"1", b"1\x00", False),
        (b"1", b"\x001", False),
        (b"1", b"\xff\xfe1", False),
        (b"1", b"\x1b[0m1", False),
        (b"1", b"1.0", False),
        (b"0", b"-0", False),
        (b"1 2", "1\u00a02".encode(), False),
        (b"", b"\n", True),
    ],
)
def test_tokens_are_compared_as_bytes(expected: bytes, actual: bytes, same: bool) -> None:
    assert same_output(expected, actual) is same


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (b"0.5", b"0.5000001", True),
        (b"0.5", b"0.51", False),
        (b"5", b"5.0000001", True),
        (b"1000000", b"1000001", False),
        (b"1000000.0", b"1000000.5", True),
        (b"1000000007", b"1000000000.0", False),
        (b"1000000007", b"1000000000", False),
        (b"1000000007", b"1e9", False),
        (b"1000000007", b"1000000007.0", True),
        (b"1000000007", b"1000000006.9999999", True),
        (b"1000000007", b"1.000000007e9", True),
        (b"100000000000000000001", b"100000000000000000000.0", False),
        (b"-3", b"-3.0000001", True),
        (b"5", b"5.4", False),
        (b"5", b"1e999", False),
        (b"5", b"5.0e0", True),
        (b"007", b"7", True),
        (b"0.0", b"-0.0", True),
        (b"1.5", b"nan", False),
        (b"nan", b"nan", True),
        (b"1.5", b"inf", False),
        (b"1.5", b"1_5e-1", False),
        (b"1.5", b"0x1.8p0", False),
        (b"1.5", "１.5".encode(), False),
        (b"1.5", b"1." + b"5" * 500, False),
        (b"1.5", b"1e999", False),
        (b"yes 0.5", b"no 0.5", False),
    ],
)
def test_a_tolerance_applies_to_numbers_alone(expected: bytes, actual: bytes, same: bool) -> None:
    assert same_output(expected, actual, 1e-6) is same


def test_a_difference_is_named_without_the_expected_token() -> None:
    assert first_difference(b"1 secret 3", b"1 2 3") == "token 2 of 3 differs"
    assert first_difference(b"1 2 3", b"1 2") == "2 tokens instead of 3"
