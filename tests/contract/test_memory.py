"""The memory store keeps the contract."""

from parley.adapters.memory import MemoryStore
from parley.ports import Store
from tests.contract.store import StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self) -> Store:
        return MemoryStore()
