"""The loss against arithmetic by hand and against torch, and what padding and cuts may not do to it."""

import math

import pytest
import torch
from torch.nn import functional as F

from tformer.data.batching import fixed_batches
from tformer.training import loss as loss_module
from tformer.training.loss import corpus_nll, output_loss, perplexity, sequence_loss
from tformer.vocabulary import PAD_ID

# probabilities of 5 pieces at 3 positions of 2 sentences; the second has one position of padding
PROBABILITIES = [
    [[0.1, 0.2, 0.3, 0.2, 0.2], [0.2, 0.2, 0.2, 0.2, 0.2], [0.05, 0.05, 0.1, 0.4, 0.4]],
    [[0.5, 0.1, 0.1, 0.1, 0.2], [0.1, 0.1, 0.6, 0.1, 0.1], [0.96, 0.01, 0.01, 0.01, 0.01]],
]
LABELS = [[3, 4, 2], [4, 2, 0]]
REAL = [(row, position) for row in range(2) for position in range(3) if LABELS[row][position]]
SMOOTHINGS = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])


@pytest.fixture
def logits():
    """Log-probabilities moved by a constant at each position, which no softmax sees."""
    constants = torch.tensor([[[1.0], [-2.0], [3.0]], [[0.5], [0.0], [20.0]]])
    return (torch.tensor(PROBABILITIES).log() + constants).requires_grad_()


@pytest.fixture
def labels():
    return torch.tensor(LABELS)


def smoothed(label, smoothing):
    """The target distribution over 5 pieces."""
    return [smoothing / 5 + (1 - smoothing) * (piece == label) for piece in range(5)]


@SMOOTHINGS
def test_by_hand(logits, labels, smoothing):
    loss = nll = 0.0
    for row, position in REAL:
        logs = [math.log(probability) for probability in PROBABILITIES[row][position]]
        label = LABELS[row][position]
        loss -= sum(share * log for share, log in zip(smoothed(label, smoothing), logs, strict=True))
        nll -= logs[label]
    sums = sequence_loss(logits, labels, 5, smoothing)
    assert sums.num_tokens == 5
    assert sums.loss.item() == pytest.approx(loss, rel=1e-5)
    assert sums.nll.item() == pytest.approx(nll, rel=1e-5)
    assert nll == pytest.approx(-math.log(0.2 * 0.2 * 0.1 * 0.2 * 0.6))


@SMOOTHINGS
def test_gradient_by_hand(logits, labels, smoothing):
    """At each position: the model's distribution minus the smoothed target; none at padding."""
    sequence_loss(logits, labels, 5, smoothing).loss.backward()
    expected = torch.zeros(2, 3, 5)
    for row, position in REAL:
        target = torch.tensor(smoothed(LABELS[row][position], smoothing))
        expected[row, position] = torch.tensor(PROBABILITIES[row][position]) - target
    torch.testing.assert_close(logits.grad, expected, rtol=0, atol=1e-6)
    assert (logits.grad[1, 2] == 0).all()


@SMOOTHINGS
def test_as_torch_has_it(smoothing):
    torch.manual_seed(0)
    logits, labels = torch.randn(4, 6, 50), torch.randint(0, 50, (4, 6))
    num_tokens = int((labels != PAD_ID).sum())
    sums = sequence_loss(logits, labels, num_tokens, smoothing)
    mean = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=PAD_ID, label_smoothing=smoothing)
    torch.testing.assert_close(sums.loss / num_tokens, mean)
    torch.testing.assert_close(sums.nll, sequence_loss(logits, labels, num_tokens, 0.0).loss)


def test_the_reported_loss_carries_no_gradient(logits, labels):
    sums = sequence_loss(logits, labels, 5, 0.1)
    assert sums.loss.requires_grad
    assert not sums.nll.requires_grad


def test_logits_at_padding_are_never_read(logits, labels):
    changed = logits.detach().clone()
    changed[1, 2] = torch.tensor([-50.0, 3.0, 900.0, 0.0, 7.0])
    for before, after in zip(
        sequence_loss(logits, labels, 5, 0.1), sequence_loss(changed, labels, 5, 0.1), strict=True
    ):
        assert before == after


@pytest.mark.parametrize("dim", [0, 1])
def test_sums_add_up_over_any_cut(logits, labels, dim):
    logits = logits.detach()
    whole = sequence_loss(logits, labels, 5, 0.1)
    for cut in range(1, labels.size(dim)):
        halves = [
            sequence_loss(part, part_labels, int((part_labels != PAD_ID).sum()), 0.1)
            for part, part_labels in zip(logits.tensor_split([cut], dim), labels.tensor_split([cut], dim), strict=True)
        ]
        for total, parts in zip(whole, zip(*halves, strict=True), strict=True):
            assert float(total) == pytest.approx(float(sum(parts)), rel=1e-6)


def test_bfloat16_is_summed_in_float32():
    torch.manual_seed(0)
    logits, labels = torch.randn(8, 200, 30).bfloat16(), torch.randint(1, 30, (8, 200))
    sums = sequence_loss(logits, labels, labels.numel(), 0.1)
    exact = sequence_loss(logits.double().float(), labels, labels.numel(), 0.1)
    assert sums.loss.dtype == sums.nll.dtype == torch.float32
    # three digits are all that a sum in bfloat16 would have
    assert sums.loss.item() == pytest.approx(exact.loss.item(), rel=1e-6)
    assert sums.nll.item() == pytest.approx(exact.nll.item(), rel=1e-6)


# ---- From the output layer's input, a few rows of logits at a time ----


@pytest.fixture
def before_output():
    """What an output layer of 50 pieces reads at 4 · 6 positions, its weight, and labels with padding among them."""
    torch.manual_seed(0)
    labels = torch.randint(1, 50, (4, 6))
    labels[1, 4:] = labels[3, 2:] = PAD_ID
    return torch.randn(4, 6, 16, requires_grad=True), torch.randn(50, 16, requires_grad=True), labels


def losses_and_gradients(sums, hidden, weight):
    return sums.loss.item(), sums.nll.item(), *torch.autograd.grad(sums.loss / sums.num_tokens, (hidden, weight))


@SMOOTHINGS
@pytest.mark.parametrize("rows_at_once", [1, 7, 24, 1000])
def test_the_loss_without_logits_is_the_loss_by_them(before_output, monkeypatch, smoothing, rows_at_once):
    hidden, weight, labels = before_output
    monkeypatch.setattr(loss_module, "_LOGITS_AT_ONCE", rows_at_once * 50)
    num_tokens = int((labels != PAD_ID).sum())
    found = losses_and_gradients(
        output_loss(hidden, weight, labels, num_tokens, smoothing, torch.float32), hidden, weight
    )
    right = losses_and_gradients(sequence_loss(hidden @ weight.T, labels, num_tokens, smoothing), hidden, weight)
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert (found[2][labels == PAD_ID] == 0).all()


def test_the_loss_without_logits_in_bfloat16_stays_within_its_rounding(before_output):
    hidden, weight, labels = before_output
    num_tokens = int((labels != PAD_ID).sum())
    found = losses_and_gradients(output_loss(hidden, weight, labels, num_tokens, 0.1, torch.bfloat16), hidden, weight)
    right = losses_and_gradients(sequence_loss(hidden @ weight.T, labels, num_tokens, 0.1), hidden, weight)
    assert found[:2] == pytest.approx(right[:2], rel=2**-7)
    for one, other in zip(found[2:], right[2:], strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 2**-6 * other.norm()


def test_what_is_no_number_before_the_output_is_none_in_the_loss(before_output):
    hidden, weight, labels = before_output
    with torch.no_grad():
        hidden[0, 1, 3] = math.nan
    assert math.isnan(output_loss(hidden, weight, labels, 18, 0.1, torch.float32).loss.item())


def test_a_hopeless_piece_costs_much_and_not_the_run(before_output):
    hidden, weight, labels = before_output
    sums = output_loss(hidden * 1000, weight, labels, 18, 0.0, torch.float32)
    assert 18 * 80 < sums.loss.item() < 18 * 88
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(sums.loss, (hidden, weight)))


def test_the_loss_of_a_corpus_does_not_depend_on_its_batches(tiny_model, tokenised):
    model = tiny_model()
    corpus = tokenised(
        [[4, 5, 6], [7], [], [8, 9, 10, 11, 12], [4, 4]], [[5], [6, 7, 8, 9, 10, 11], [4, 12], [], [9, 8, 7]]
    )
    nlls = [corpus_nll(model, fixed_batches(corpus, size), torch.device("cpu")) for size in (1, 8, 16, 1000)]
    assert nlls == pytest.approx([nlls[0]] * 4, rel=1e-6)

    log_probs = []
    for source, target in zip(corpus.src, corpus.tgt, strict=True):
        src, tgt_in = torch.tensor([source.tolist()]), torch.tensor([[1, *target.tolist()[:-1]]])
        table = model(src, tgt_in, torch.ones_like(src, dtype=torch.bool)).log_softmax(dim=-1)
        log_probs += [table[0, position, piece].item() for position, piece in enumerate(target.tolist())]
    assert nlls[0] == pytest.approx(-sum(log_probs) / len(log_probs), rel=1e-5)
    assert len(log_probs) == 12 + 5


def test_perplexity_has_no_end():
    assert perplexity(0.0) == 1.0
    assert perplexity(math.log(37_000)) == pytest.approx(37_000)
    assert perplexity(1000.0) == perplexity(math.inf) == math.inf
    assert math.isnan(perplexity(math.nan))
