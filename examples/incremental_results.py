"""Incremental results: three agents in a row, each begins with a batch as soon as the one before has written it.

    python examples/incremental_results.py

A batch is a file. What goes from agent to agent is only the news that there is one: where, how many rows, in which
format. It is a notification: nobody waits for an answer. Each agent takes the news in their order (`concurrency=1`).
They read and write files, so their handlers are plain functions, which run in threads; `self.wait` is their `await`.

The server runs in this process. Against a real one the classes stay as they are: `Cleaner().run()`.
"""

import csv
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from parley import Agent, BaseAgent, ChannelMessage, Intent, on_assignment, on_message
from parley.testing import stage

BATCHES = [["12.50", "", "7.00"], ["3.25", "n/a", "9.75"], ["1.00", "2.00", "3.00"]]


def say(who: str, what: str) -> None:
    """A line in one piece: the agents are threads here."""
    print(f"{who:<10}{what}\n", end="")


@Agent("loader", concurrency=1)
class Loader(BaseAgent):
    """Writes what it gets, batch by batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @on_assignment
    def load(self, intent: Intent) -> None:
        channel = self.wait(self.channels.open("batches"))
        for number, amounts in enumerate(BATCHES, 1):
            path = self.folder / f"raw-{number}.csv"
            with path.open("w", newline="") as file:
                csv.writer(file).writerows([amount] for amount in amounts)
            say("loader", f"has written {path.name}")
            news = {"batch": number, "of": len(BATCHES), "format": "csv", "rows": len(amounts), "location": str(path)}
            self.wait(channel.notify("cleaner", news))


@Agent("cleaner", concurrency=1)
class Cleaner(BaseAgent):
    """Keeps the rows that are numbers."""

    @on_message(channel="batches", kind="notify", from_="loader")
    def clean(self, message: ChannelMessage) -> None:
        source = Path(message.payload["location"])
        with source.open(newline="") as file:
            amounts = [float(row[0]) for row in csv.reader(file) if row and row[0].replace(".", "").isdigit()]
        target = source.with_name(source.name.replace("raw", "clean")).with_suffix(".json")
        target.write_text(json.dumps(amounts))
        say("cleaner", f"keeps {len(amounts)} of {message.payload['rows']} rows of {source.name}")
        news = {**message.payload, "format": "json", "rows": len(amounts), "location": str(target)}
        channel = self.wait(self.channels.open("batches"))
        self.wait(channel.notify("reporter", news))


@Agent("reporter", concurrency=1)
class Reporter(BaseAgent):
    """Adds up, and says when all is there. News that come twice, after a crash, change nothing."""

    def __init__(self) -> None:
        self.sums: dict[int, float] = {}

    @on_message(channel="batches", kind="notify", from_="cleaner")
    def add(self, message: ChannelMessage) -> None:
        batch = message.payload
        self.sums[batch["batch"]] = sum(json.loads(Path(batch["location"]).read_text()))
        total = sum(self.sums.values())
        say("reporter", f"has {len(self.sums)} of {batch['of']} batches: {total:.2f}")
        if len(self.sums) == batch["of"]:
            self.wait(self.client.update_state(message.intent_id, {"total": total}))
            self.wait(self.client.complete_intent(message.intent_id))


def main() -> None:
    with TemporaryDirectory() as folder, stage() as team:
        team.start(Reporter(), Cleaner(), Loader(Path(folder)))
        owner = team.client("owner")
        intent = owner.create_intent("Add up the day", status="active", access=["cleaner", "reporter"])
        owner.assign_agent(intent.id, "loader")
        team.wait_until(lambda: owner.get_intent(intent.id).status == "completed", timeout=30)
        say("owner", f"finds the result: {owner.get_intent(intent.id).state}")


if __name__ == "__main__":
    main()
