"""Many small whole numbers in few letters: an adaptive arithmetic code, read back by `coded.js`.

Each number is a few bits, and each bit has odds of its own for every context, which move towards
what was seen. What is sure costs nearly nothing.
"""

import base64

ONE, SPEED = 4096, 4  # the unit of odds; they move by a sixteenth


class Coder:
    """Numbers of `bits` bits, one after the other: `put(number, context)`, then `letters()`."""

    def __init__(self, bits: int, contexts: int):
        self.bits = bits
        self.odds = [ONE // 2] * (contexts << bits)
        self.low, self.range, self.bytes = 0, (1 << 32) - 1, 4

    def put(self, number: int, context: int) -> None:
        node = 1
        for place in reversed(range(self.bits)):
            bit = number >> place & 1
            self.put_bit(bit, (context << self.bits) + node)
            node = 2 * node + bit

    def put_bit(self, bit: int, at: int) -> None:
        bound = self.range // ONE * self.odds[at]
        if bit:
            self.low, self.range = self.low + bound, self.range - bound
            self.odds[at] -= self.odds[at] >> SPEED
        else:
            self.range = bound
            self.odds[at] += (ONE - self.odds[at]) >> SPEED
        while self.range < 1 << 24:
            self.low, self.range, self.bytes = self.low << 8, self.range << 8, self.bytes + 1

    def letters(self) -> str:
        return base64.b64encode(self.low.to_bytes(self.bytes, "big").rstrip(b"\0")).decode()
