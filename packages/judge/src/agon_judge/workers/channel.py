"""A connection between two processes that carries whole messages, which can be looked at before they are taken.

On Linux the kernel keeps messages apart (SEQPACKET). Where it does not, as on macOS, a stream carries each behind its
length. Several processes may hold one end, so nothing is buffered here: what was not taken is still there for the next.
"""

from __future__ import annotations

import select
import socket
import time

MAX_BYTES = 1 << 20
_HEAD = 4
_PAUSE = 0.001


class Channel:
    """One end of a connection whose messages the kernel keeps apart."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def fileno(self) -> int:
        return self._end.fileno()

    def close(self) -> None:
        self._end.close()

    def setblocking(self, blocking: bool) -> None:
        self._end.setblocking(blocking)

    def send(self, message: bytes) -> None:
        self._end.send(message)

    def receive(self) -> bytes:
        """Take the next message; empty when the other end is gone. Raises BlockingIOError instead of waiting."""
        return self._end.recv(MAX_BYTES)

    def peek(self) -> bytes:
        """The next message, which stays; waits for one, and is empty when the other end is gone."""
        return self._end.recv(MAX_BYTES, socket.MSG_PEEK)

    def has_message(self) -> bool:
        """Whether a message is there; does not wait."""
        try:
            return bool(self._end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False


class StreamChannel(Channel):
    """One end of a stream: each message behind its length."""

    def send(self, message: bytes) -> None:
        left = memoryview(len(message).to_bytes(_HEAD, "big") + message)
        while left:
            try:
                left = left[self._end.send(left) :]
            except BlockingIOError:  # half a message must not stay
                poll = select.poll()
                poll.register(self._end, select.POLLOUT)
                poll.poll()

    def receive(self) -> bytes:
        frame = self._whole(0)
        if frame is None:
            raise BlockingIOError
        left = len(frame)
        while left:
            left -= len(self._end.recv(min(left, MAX_BYTES)))
        return frame[_HEAD:]

    def peek(self) -> bytes:
        while (frame := self._whole(0)) is None:
            time.sleep(_PAUSE)  # the rest of it is on its way
        return frame[_HEAD:]

    def has_message(self) -> bool:
        try:
            return bool(self._whole(socket.MSG_DONTWAIT))
        except OSError:
            return False

    def _whole(self, flags: int) -> bytes | None:
        """The next message behind its length, left where it is; empty at the end, None while a part is missing."""
        head = self._end.recv(_HEAD, socket.MSG_PEEK | flags)
        if not head:
            return b""
        size = _HEAD + int.from_bytes(head, "big")
        frame = self._end.recv(size, socket.MSG_PEEK | flags) if len(head) == _HEAD else b""
        return frame if len(frame) == size else None


def channel_of(end: socket.socket) -> Channel:
    """The channel over one end of a pair."""
    return StreamChannel(end) if end.type == socket.SOCK_STREAM else Channel(end)


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends, of the kind that keeps messages apart where there is one."""
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError:  # macOS: EPROTONOSUPPORT
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
