"""The memory store keeps the contract."""

from parley.adapters.memory import MemoryStore
from parley.ports.mailbox import Store
from tests.contract.store import StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self) -> Store:
        return MemoryStore()
