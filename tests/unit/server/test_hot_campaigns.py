"""Few labels, whatever is asked for; and they go to the campaigns that run hot."""

from __future__ import annotations

from server.hot_campaigns import CANDIDATES_MAX, OTHER, WINDOW_S, HotCampaigns


class Ticker:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s

    def next_window(self) -> None:
        self.s += WINDOW_S


def ask(hot: HotCampaigns, campaign: str, times: int) -> set[str]:
    return {hot.label(campaign) for _ in range(times)}


def test_as_long_as_there_is_room_every_campaign_has_its_name() -> None:
    hot = HotCampaigns(2, monotonic=Ticker())

    assert [hot.label(each) for each in ("a", "b", "c", "a")] == ["a", "b", OTHER, "a"]


def test_there_are_never_more_names_than_allowed() -> None:
    ticker = Ticker()
    hot = HotCampaigns(5, monotonic=ticker)

    labels: set[str] = set()
    for window in range(20):
        for number in range(200):
            labels |= ask(hot, f"c{(window * 37 + number) % 400}", number % 7)
        assert len(hot.named()) <= 5
        ticker.next_window()

    assert OTHER in labels


def test_a_campaign_that_runs_hotter_takes_the_name_of_the_coldest_and_the_old_series_end() -> None:
    ticker = Ticker()
    forgotten: list[str] = []
    hot = HotCampaigns(2, monotonic=ticker, forget=forgotten.append)
    ask(hot, "warm", 10)
    ask(hot, "cold", 2)

    before = ask(hot, "flash", 100)
    ticker.next_window()
    after = ask(hot, "flash", 100)

    assert (before, after) == ({OTHER}, {"flash"})
    assert forgotten == ["cold"]
    assert hot.named() == ("flash", "warm")


def test_names_do_not_change_between_campaigns_that_run_alike() -> None:
    ticker = Ticker()
    forgotten: list[str] = []
    hot = HotCampaigns(1, monotonic=ticker, forget=forgotten.append)

    for _ in range(10):
        ask(hot, "a", 10)
        ask(hot, "b", 12)
        ticker.next_window()

    assert forgotten == []


def test_memory_stays_bounded_when_everybody_invents_campaigns() -> None:
    hot = HotCampaigns(5, monotonic=Ticker())

    for number in range(CANDIDATES_MAX * 3):
        hot.label(f"c{number}")

    assert len(hot._now) == CANDIDATES_MAX + 5


def test_the_rate_is_that_of_the_last_whole_window() -> None:
    ticker = Ticker()
    hot = HotCampaigns(5, monotonic=ticker)
    ask(hot, "a", 50)

    within = dict(hot.rates())
    ticker.next_window()
    after = dict(hot.rates())
    ticker.s += 2 * WINDOW_S
    idle = dict(hot.rates())

    assert (within, after, idle) == ({}, {"a": 5.0}, {})
