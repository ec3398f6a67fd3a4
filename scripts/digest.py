#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the digest of a result, or of an answer of what-if, replan and --survive (docs/file-formats.md, Digests).

usage: digest.py FILE      prints the digest of its content
"""
import json
import sys
from decimal import Decimal

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotated(x, r):
    return ((x << r) | (x >> (64 - r))) & MASK


def mixed(accumulator, lane):
    return rotated((accumulator + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data):
    """Computes the hash of xxHash specification 0.1.1, seed 0."""
    at, size = 0, len(data)
    word = lambda n: int.from_bytes(data[at:at + n], "little")  # noqa: E731
    if size >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        while size - at >= 32:
            for i in range(4):
                lanes[i] = mixed(lanes[i], word(8))
                at += 8
        value = sum(rotated(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            value = ((value ^ mixed(0, lane)) * P1 + P4) & MASK
    else:
        value = P5
    value = (value + size) & MASK
    while size - at >= 8:
        value = (rotated(value ^ mixed(0, word(8)), 27) * P1 + P4) & MASK
        at += 8
    if size - at >= 4:
        value = (rotated(value ^ (word(4) * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    while at < size:
        value = rotated(value ^ (word(1) * P5 & MASK), 11) * P1 & MASK
        at += 1
    value = (value ^ (value >> 33)) * P2 & MASK
    value = (value ^ (value >> 29)) * P3 & MASK
    return value ^ (value >> 32)


def number(value):
    """Returns the shortest digits that read back equal, in the shorter notation, on a tie without an exponent;
    whole numbers plain."""
    if isinstance(value, int) or (value == int(value) and abs(value) < 2**53):
        return str(int(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    written, power = "".join(map(str, digits)), len(digits) + exponent - 1
    scientific = written[0] + ("." + written[1:] if len(written) > 1 else "") + f"e{power:+03d}"
    fixed = format(Decimal(repr(value)), "f")
    if exponent >= 0:
        fixed = written + "0" * exponent + ".0"
    return ("-" if sign else "") + min(fixed.lstrip("-"), scientific, key=lambda t: (len(t), t is scientific))


def canonical(value):
    if isinstance(value, dict):
        return "{" + ",".join(f"{text(k)}:{canonical(value[k])}" for k in sorted(value, key=str.encode)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return text(value) if isinstance(value, str) else number(value)


def text(value):
    return json.dumps(value, ensure_ascii=False)


def digest(document):
    return f"{xxh64(canonical({k: v for k, v in document.items() if k not in ('digest', 'timing')}).encode()):016x}"


if __name__ == "__main__":
    print(digest(json.load(open(sys.argv[1], encoding="utf-8"))))
