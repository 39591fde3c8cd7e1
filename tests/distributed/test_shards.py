"""The batches of several processes: together those of one process, each once, whatever an epoch's end does to them."""

import pytest

from tformer.data.batching import BatchStream


@pytest.fixture
def forty(tokenised):
    """Forty pairs of lengths from 2 to 11, in more batches than four processes take at once."""
    rows = [[5] * (1 + index % 10) for index in range(40)]
    return tokenised(rows, rows[::-1])


def windows(corpus, num_batches, world_size, count, **settings):
    """For each update, the batches of every process, and the tokens that each thinks there are."""
    streams = [
        BatchStream(corpus, 24, seed=1, rank=rank, world_size=world_size, **settings) for rank in range(world_size)
    ]
    return [[stream.next_window(num_batches) for stream in streams] for _ in range(count)], streams


@pytest.mark.parametrize(("num_batches", "world_size"), [(4, 2), (4, 4), (5, 4), (8, 3), (7, 3)])
def test_processes_share_the_batches_of_one(forty, num_batches, world_size):
    alone = BatchStream(forty, 24, seed=1)
    assert alone.batches_per_epoch % num_batches  # windows do not end where epochs do
    count = 3 * alone.batches_per_epoch // num_batches
    found, streams = windows(forty, num_batches, world_size, count)
    for parts in found:
        expected = [next(alone).indices.tolist() for _ in range(num_batches)]
        shares = [[batch.indices.tolist() for batch in part.batches] for part in parts]
        assert shares == [expected[rank::world_size] for rank in range(world_size)]
        assert {part.num_tokens for part in parts} == {
            sum(batch.num_tokens for part in parts for batch in part.batches)
        }
        assert all((stream.epoch, stream.taken) == (streams[0].epoch, streams[0].taken) for stream in streams)
    assert (streams[0].epoch, streams[0].taken) == (alone.epoch, alone.taken)


def test_each_pair_once_an_epoch_over_all_processes_and_another_order_in_each(forty):
    epochs = []
    per_epoch = BatchStream(forty, 24, seed=1).batches_per_epoch
    found, _ = windows(forty, per_epoch, 4, 3)
    for parts in found:
        batches = [batch.indices.tolist() for part in parts for batch in part.batches]
        assert sorted(index for batch in batches for index in batch) == list(range(40))
        epochs.append(str(batches))
    assert len(set(epochs)) == 3


def test_tokens_are_counted_in_words_cut_anew(forty, tokenised):
    """Where words are cut anew each epoch, those of the new cut count from its first batch on."""

    def longer(epoch):
        rows = [[5] * (1 + index % 10 + epoch) for index in range(40)]
        return tokenised(rows, rows[::-1])

    per_epoch = BatchStream(forty, 24, seed=1).batches_per_epoch
    found, _ = windows(longer(0), per_epoch + 1, 2, 3, resample=longer)
    for parts in found:
        assert {part.num_tokens for part in parts} == {
            sum(batch.num_tokens for part in parts for batch in part.batches)
        }


def test_a_place_saved_by_four_is_taken_up_by_one(forty):
    _, four = windows(forty, 4, 4, 5)
    alone, resumed = BatchStream(forty, 24, seed=1), BatchStream(forty, 24, seed=1)
    resumed.seek(four[0].epoch, four[0].taken)
    for _ in range(5):
        alone.next_window(4)
    assert [next(resumed).indices.tolist() for _ in range(9)] == [next(alone).indices.tolist() for _ in range(9)]
