"""Silent peers are noticed, whatever else goes wrong."""

import threading

from drumline.distribute.parameter_server.wire.watch import Watch


class Broken:
    interval = 0.5

    def check(self, now):
        raise AttributeError("closed meanwhile")


class Checked:
    interval = 0.05

    def __init__(self):
        self.twice = threading.Event()
        self.times = 0

    def check(self, now):
        self.times += 1
        if self.times == 2:
            self.twice.set()


def test_an_error_of_one_does_not_end_the_watch_of_others(caplog):
    watch, broken, checked = Watch(), Broken(), Checked()
    watch.add(broken)
    watch.add(checked)
    assert checked.twice.wait(30)
    watch.remove(broken)
    watch.remove(checked)
    assert "closed meanwhile" in caplog.text
