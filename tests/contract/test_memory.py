"""The memory store keeps the contract."""

from parley.ports.mailbox import Store
from tests.contract.store import StoreContract
from tests.rigs.memory_store import MemoryStore


class TestMemoryStore(StoreContract):
    def make_store(self) -> Store:
        return MemoryStore()
