"""When memory that was freed is given back: between epochs, if the process grew."""

from drumline._memory import Trimmer
from drumline.data import Dataset


class Process:
    """One whose size, whose free memory and whose time are set by hand; looking takes a moment."""

    def __init__(self):
        self.now = 0.0
        self.size = 1000
        self.free = 0
        self.trims = 0
        self.trimmer = Trimmer(self.resident, self.trim, lambda: self.now)

    def resident(self):
        self.now += 0.001
        return self.size

    def trim(self):
        self.now += 0.01
        self.trims += 1
        self.size -= self.free
        self.free = 0

    def epoch(self, grown=0, freed=0, seconds=100.0):
        self.now += seconds
        self.size += grown
        self.free += freed
        self.trimmer.epoch_ended()


def test_a_process_that_grows_is_trimmed():
    process = Process()
    process.epoch()
    for _ in range(40):
        process.epoch(grown=8, freed=8)
    assert 10 <= process.trims <= 30
    assert process.size <= 1010


def test_one_that_stays_or_needs_what_it_has_is_left_alone():
    process = Process()
    for _ in range(5):
        process.epoch()
    assert process.trims == 0
    process.epoch(grown=500)
    for _ in range(5):
        process.epoch()
    assert process.trims == 1


def test_short_epochs_spend_little_on_it():
    process = Process()
    for _ in range(1000):
        process.epoch(grown=20, freed=20, seconds=0.01)
    assert process.now < 1.02 * 1000 * 0.01


def test_an_epoch_tells_of_its_end(monkeypatch):
    told = []
    monkeypatch.setattr("drumline.data.engine.iterator.epoch_ended", lambda: told.append(1))
    iterator = iter(Dataset.range(3))
    assert [int(v) for v in iterator] == [0, 1, 2]
    assert told == [1]
    assert list(iterator) == []
    assert told == [1]
    for _ in iter(Dataset.range(5)).blocks(2):
        assert told == [1]
    assert told == [1, 1]
