"""A user whose model didact never saw: a classifier made and saved with plain transformers, and a CSV of her own."""

import csv
import random
from pathlib import Path

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertTokenizerFast,
)

SYLLABLES = ["ba", "de", "fi", "go", "lu", "mi", "no", "pa", "re", "si", "ta", "vu"]
WORDS = [first + second for first in SYLLABLES for second in SYLLABLES]
GOOD, BAD, OTHER = WORDS[:25], WORDS[25:50], WORDS[50:]


def reviews(count: int, seed: int) -> list[tuple[str, int]]:
    """Texts of invented words: two of them decide whether a review is good (1) or bad (0)."""
    dice = random.Random(seed)
    found = []
    for _ in range(count):
        label = dice.randrange(2)
        words = dice.choices(OTHER, k=6) + dice.choices(GOOD if label else BAD, k=2)
        dice.shuffle(words)
        found.append((" ".join(words), label))
    return found


def save_model(folder: Path, classes: dict[int, str], *, base: str | None = None, steps: int = 150) -> Path:
    """A classifier of these reviews, trained by a plain loop and saved with save_pretrained."""
    torch.manual_seed(0)
    if base is None:
        vocabulary = folder.parent / "vocab.txt"
        vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
        tokenizer = BertTokenizerFast(str(vocabulary))
        config = BertConfig(
            vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64, id2label=classes,
        )  # fmt: skip
        model = BertForSequenceClassification(config)
    else:
        tokenizer = AutoTokenizer.from_pretrained(base)
        model = AutoModelForSequenceClassification.from_pretrained(base, id2label=classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3 if base is None else 1e-4)
    # The class that this model calls good: her order of classes is not that of the data.
    good = next((index for index, name in classes.items() if name.lower() in ("positive", "label_1")), 1)
    rows, dice = reviews(1200, seed=1), random.Random(0)
    for _ in range(steps):
        texts, labels = zip(*dice.sample(rows, 32), strict=True)
        inputs = tokenizer(list(texts), return_tensors="pt", padding=True)
        loss = model(**inputs, labels=torch.tensor([good if label else 1 - good for label in labels])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_csv(path: Path, names: dict[int, str], *, rows: int, seed: int = 2) -> Path:
    """A file as a spreadsheet writes it: semicolons, column names of her own, labels in her words."""
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, delimiter=";")
        lines.writerow(["review_id", "comment", "verdict"])
        lines.writerows([f"R{place}", text, names[label]] for place, (text, label) in enumerate(reviews(rows, seed)))
    return path
