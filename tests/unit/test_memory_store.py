"""The memory store beyond the contract: it belongs to its process and forgets with it."""

from parley.app.mailbox.kernel import drive
from parley.domain.hashes import digest
from parley.domain.mailbox.delivery import Delivery, DeliveryKey, Status
from parley.domain.mailbox.ledger import Entry, MailboxChanges, StoredMessage, WatchedFile
from tests.rigs.memory_store import MemoryStore
from tests.samples.messages import a_message


def test_two_stores_share_nothing() -> None:
    one, other = MemoryStore(), MemoryStore()
    kept = StoredMessage(a_message(), b"x", digest(b"x"), minted=True)
    delivery = Delivery(DeliveryKey("m1", "d", "codex"), "a.yaml", Status.PENDING)
    changes = MailboxChanges(
        (kept,), (delivery,), (Entry("sent", "", "", "", ""),), watched=(WatchedFile("w", "a.yaml"),)
    )

    drive(one.commit(changes))

    assert drive(other.entries(0, 10)) == ()
    assert drive(other.search("", 10)) == ()
    assert drive(other.deliveries(*Status)) == ()
    assert drive(other.seen_files("w")) == frozenset()


def test_what_was_minted_is_read_like_what_a_file_store_reads() -> None:
    store = MemoryStore()
    kept = StoredMessage(a_message(), b"x", digest(b"x"), minted=True)

    drive(store.commit(MailboxChanges((kept,))))

    assert drive(store.find(kept.message.id)) == (kept._replace(minted=False),)
