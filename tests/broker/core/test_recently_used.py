import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.core.recently_used import RecentlyUsed


@pytest.mark.slow
@given(
    uses=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 120)), max_size=40),
    count_max=st.integers(1, 4),
)
def test_only_what_was_used_of_late_is_kept(uses: list[tuple[int, int]], count_max: int) -> None:
    table: RecentlyUsed[int, list[int]] = RecentlyUsed(list, count_max=count_max, idle_ms_max=100)
    now_ms, last_ms, kept = 0, dict[int, int](), list[int]()
    for key, pause_ms in uses:
        now_ms += pause_ms
        kept = [each for each in kept if now_ms - last_ms[each] <= 100]
        entry = table.use(key, now_ms)
        assert bool(entry) == (key in kept), "an entry is new when it was not kept"
        entry.append(now_ms)
        kept = [*(each for each in kept if each != key), key][-count_max:]
        last_ms[key] = now_ms
        assert len(table) == len(kept)
