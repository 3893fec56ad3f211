"""Who looks at both Archives all the time, as a resolver would see them."""

from __future__ import annotations

import threading
import time

from ibi.protocol.vocabulary import ItemState
from proofs.common.served_archive import Served

EVERY_SECONDS = 0.005


class Observer:
    """Looks at one item at a time, at the receiver first: once that has the Original, the giver has stepped back."""

    def __init__(self, giver: Served, receiver: Served) -> None:
        self._giver, self._receiver = giver, receiver
        self._name = ""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.looks = 0
        self.broken: list[str] = []
        self._thread = threading.Thread(target=self._look_on)
        self._thread.start()

    def watch(self, name: str) -> None:
        """Look at this item from now on."""
        with self._lock:
            self._name = name

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join(20)

    def _look_on(self) -> None:
        try:
            while not self._stop.is_set():
                with self._lock:
                    if self._name:
                        self._look(self._name)
                time.sleep(EVERY_SECONDS)
        except Exception as error:  # noqa: BLE001 - an observer who has fallen over has seen nothing
            self.broken.append(f"the observer could not look on: {error!r}")

    def _look(self, name: str) -> None:
        receiver = self._receiver.claim(name)
        giver = self._giver.claim(name)
        if receiver is None or giver is None:
            return  # one of them is dead: what it would say cannot be seen
        self.looks += 1
        if receiver.state is ItemState.ORIGINAL and giver.state is ItemState.ORIGINAL:
            self.broken.append(f"two Originals of {name}")
        if not receiver.url and not giver.url:
            self.broken.append(f"{name} leads nowhere")
