"""What the adapter and the training loop cost over bare PyTorch. Ratios of medians measured in turn, in one run.

- adapter: `HuggingFaceModel` (encode excluded) over the bare eager model, forward only, MiniLM if installed;
- listening: the same with attention logits kept;
- copying: the copy that every call of `predict` and `explain` works in, over one forward pass of one row;
- loop: one epoch of `fit` over a bare loop of the same steps, native model on planted/sentiment.
"""

import statistics
import time
from collections.abc import Callable

import torch

import didact
import didact.errors
from didact.core.human import HumanTeacher
from didact.core.shared_weights import shared_copy
from didact.learning.fit import Examples, Training, epoch_batches, fit
from didact.models.build import build_model


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ratio(ours: Callable[[], object], bare: Callable[[], object], *, rounds: int) -> float:
    """Median of ours over median of bare, measured in turn so that a busy machine slows both."""
    ours(), bare()
    times = [(seconds(ours), seconds(bare)) for _ in range(rounds)]
    return statistics.median(one for one, _ in times) / statistics.median(two for _, two in times)


def adapter() -> None:
    data = didact.load_data("planted/sentiment", teach=64, explain=1, train=1, dev=1, test=1)
    try:
        model = build_model("minilm", data).eval()
    except didact.errors.MissingExtraError as error:
        print(f"adapter: skipped. {error}")
        return
    batch = model.encode(data["teach"].rows)
    model.model.set_attn_implementation("eager")

    @torch.no_grad()
    def bare() -> None:
        model.model(input_ids=batch.tokens, attention_mask=batch.mask.long(), token_type_ids=batch.types)

    @torch.no_grad()
    def ours() -> None:
        model(batch)

    @torch.no_grad()
    def listening() -> None:
        model(batch, listen=("mean",))

    print(f"adapter forward / bare eager forward:                    {ratio(ours, bare, rounds=15):.2f}")
    print(f"adapter forward with mean attention / bare eager forward: {ratio(listening, bare, rounds=15):.2f}")
    single = model.encode(data["teach"].rows[:1])

    @torch.no_grad()
    def one_row() -> None:
        model(single)

    copying = ratio(lambda: shared_copy(model), one_row, rounds=15)
    print(f"copy that shares the weights / forward of one row:        {copying:.2f}")


def loop() -> None:
    data = didact.load_data("planted/sentiment", teach=3200, explain=1, train=1, dev=64, test=1)
    gold = HumanTeacher(data.task, data.classes)
    training = Training(epochs=1, batch_size=64)
    model = build_model("native", data)
    train, dev = (Examples.of(model, data[name].rows, gold.predict(data[name].rows)) for name in ("teach", "dev"))

    def bare() -> None:
        optimiser = torch.optim.AdamW(model.parameters(), lr=training.rate, fused=True)
        model.train()
        for chosen in list(epoch_batches(train.batch, training, 1)):
            index = torch.from_numpy(chosen)
            loss = model.task.loss(model(train.batch.select(index)).logits, train.goal[index]).mean()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
            optimiser.step()

    cost = ratio(lambda: fit(model, train, dev, training), bare, rounds=7)
    print(f"fit, one epoch and its dev / the bare loop:               {cost:.2f}")


if __name__ == "__main__":
    adapter()
    loop()
